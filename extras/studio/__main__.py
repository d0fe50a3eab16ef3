"""`make studio` = `python -m extras.studio`: the service together with the trainer of its queue.

The trainer is a child process, `python -m train queue`. It and its training end with the service,
even if the service is killed. The next start resumes the training. A trainer that dies is started
again.
"""

import contextlib
import logging
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence

from api.__main__ import main as serve
from api.settings import ApiSettings, load
from extras.common.flags import flag_values
from extras.studio.settings import StudioSettings
from extras.studio.training_jobs import TrainingQueue
from machine.errors import SotaqueError
from machine.process import end_group, module_command, signal_name
from machine.settings.loading import with_extras

SUMMARY = "the service, and a trainer for the trainings queued on its page"
USAGE = "[settings]"

# Enough to save a full-size checkpoint; the trainer gives its training as long.
_MAX_STOP_SECONDS = 70.0
_MAX_KILL_SECONDS = 5.0
# After a death due to lack of memory the machine needs a moment; one that fails at its start, such
# as beside another trainer, is tried less and less often.
_RESTART_PAUSE_SECONDS, _MAX_RESTART_PAUSE_SECONDS = 2.0, 60.0
_COMMAND = module_command("train", "queue")
log = logging.getLogger("api")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs both until the service ends. Returns the exit code of the service."""
    words = sys.argv[1:] if argv is None else argv
    if {"-h", "--help", "--version"} & set(words):
        return serve(words)
    hold_unbegun(words)
    trainer = Trainer(_COMMAND)
    trainer.start()
    # The server raises SIGTERM again once it has stopped. By default that would end this process
    # before it stops the trainer.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    try:
        return serve(words)
    finally:
        trainer.stop()


def hold_unbegun(words: Sequence[str]) -> None:
    """Holds the trainings that were queued while no trainer worked: the person who starts the
    studio may not know of them."""
    # The service reports invalid settings, and a folder that cannot be written.
    with contextlib.suppress(SotaqueError):
        settings, _ = load(words)
        assert isinstance(settings, StudioSettings)
        for run in TrainingQueue(settings.queue_dir).hold_unbegun():
            print(f"The training {run} was queued before. Start or cancel it on the page.")


class Trainer(threading.Thread):
    """Runs the trainer, and starts it again when it dies, until `stop`."""

    def __init__(self, command: Sequence[str], rest_seconds: float = _RESTART_PAUSE_SECONDS) -> None:
        super().__init__(daemon=True, name="trainer")
        self._command = command
        self._rest_seconds = rest_seconds
        self._stopping = threading.Event()
        self._changing = threading.Lock()
        self.child = self._start()

    def run(self) -> None:
        """Watches the trainer."""
        rest = self._rest_seconds
        while True:
            started = time.monotonic()
            code = self.child.wait()
            if time.monotonic() - started > _MAX_RESTART_PAUSE_SECONDS:
                rest = self._rest_seconds
            if self._stopping.is_set():
                return
            how = f"was killed by {signal_name(-code)}" if code < 0 else f"ended with {code}"
            log.error("The trainer %s. It is started again in %g s.", how, rest)
            if self._stopping.wait(rest):
                return
            rest = min(2 * rest, _MAX_RESTART_PAUSE_SECONDS)
            with self._changing:
                if not self._stopping.is_set():
                    self.child = self._start()

    def stop(self) -> None:
        """Ends the trainer, which saves the state of its training."""
        self._stopping.set()
        with self._changing:
            self.child.terminate()
        try:
            self.child.wait(_MAX_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            end_group(self.child, _MAX_KILL_SECONDS)

    def _start(self) -> "subprocess.Popen[bytes]":
        # A separate process group: Ctrl-C reaches only the service, which then stops the trainer.
        return subprocess.Popen(self._command, start_new_session=True)


def choices() -> dict[str, tuple[str, ...]]:
    """The flags of the service with the words that each accepts."""
    return flag_values(with_extras(ApiSettings))


if __name__ == "__main__":
    sys.exit(main())
