"""`make studio` = `python -m extras.studio`: the service, with a trainer of the queue beside it.

The trainer is a child of its own, `python -m train queue`. It ends with the service, also when that
is killed, and its training with it; the next start goes on.
"""

import signal
import subprocess
import sys

from api.__main__ import main
from machine.process import end_group, module_command

# Room for a checkpoint of full size, as the trainer itself gives its training.
_STOP_SECONDS = 70.0
_REAP_SECONDS = 5.0


def studio() -> int:
    """Runs both until the service ends; its exit code."""
    if {"-h", "--help", "--version"} & set(sys.argv[1:]):
        return main()
    # Its own group: a Ctrl-C reaches the service alone, which then stops the trainer.
    trainer = subprocess.Popen(module_command("train", "queue"), start_new_session=True)
    # The server hands SIGTERM on when it has stopped; by default that would end this process here.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    try:
        return main()
    finally:
        trainer.terminate()
        try:
            trainer.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            end_group(trainer, _REAP_SECONDS)


if __name__ == "__main__":
    sys.exit(studio())
