"""`make studio` = `python -m extras.studio`: the service together with the trainer of its queue.

The trainer is a child process, `python -m train queue`. It and its training end with the service,
even if the service is killed. The next start resumes the training.
"""

import signal
import subprocess
import sys
from collections.abc import Sequence

from api.__main__ import main as serve
from api.settings import ApiSettings
from machine.process import end_group, module_command
from machine.settings.flags import flag_values
from machine.settings.loading import whole

SUMMARY = "the service, and a trainer for the trainings queued on its page"
USAGE = "[settings]"

# Enough to save a full-size checkpoint; the trainer gives its training as long.
_STOP_SECONDS = 70.0
_REAP_SECONDS = 5.0


def main(argv: Sequence[str] | None = None) -> int:
    """Runs both until the service ends. Returns the exit code of the service."""
    words = sys.argv[1:] if argv is None else argv
    if {"-h", "--help", "--version"} & set(words):
        return serve(words)
    # A separate process group: Ctrl-C reaches only the service, which then stops the trainer.
    trainer = subprocess.Popen(module_command("train", "queue"), start_new_session=True)
    # The server raises SIGTERM again once it has stopped. By default that would end this process
    # before it stops the trainer.
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
    """The flags of the service with the words that each accepts."""
    return flag_values(whole(ApiSettings))


if __name__ == "__main__":
    sys.exit(main())
