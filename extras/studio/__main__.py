"""`make studio` = `python -m extras.studio`: the service, with a trainer of the queue beside it.

The trainer is a child of its own, `python -m train queue`. It ends with the service, also when that
is killed, and its training with it; the next start goes on.
"""

import signal
import subprocess
import sys
from collections.abc import Sequence

from api.__main__ import main as serve
from api.settings import ApiSettings
from machine.process import end_group, module_command
from machine.settings.loading import whole
from machine.settings.types import flag_values

SUMMARY = "the service, and a trainer for the trainings that its page asks for"
USAGE = "[settings]"

# Room for a checkpoint of full size, as the trainer itself gives its training.
_STOP_SECONDS = 70.0
_REAP_SECONDS = 5.0


def main(argv: Sequence[str] | None = None) -> int:
    """Runs both until the service ends; its exit code."""
    words = sys.argv[1:] if argv is None else argv
    if {"-h", "--help", "--version"} & set(words):
        return serve(words)
    # Its own group: a Ctrl-C reaches the service alone, which then stops the trainer.
    trainer = subprocess.Popen(module_command("train", "queue"), start_new_session=True)
    # The server hands SIGTERM on when it has stopped; by default that would end this process here.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    try:
        return serve(words)
    finally:
        trainer.terminate()
        try:
            trainer.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            end_group(trainer, _REAP_SECONDS)


def choices() -> dict[str, tuple[str, ...]]:
    """The flags of the service, each with its words."""
    return flag_values(whole(ApiSettings))


if __name__ == "__main__":
    sys.exit(main())
