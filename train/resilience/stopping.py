"""Handles SIGTERM and SIGINT: finishes the step, saves, exits.

The handler itself does no I/O (a signal may arrive inside a write). Where a step plus the write of
its state do not fit into STOP_SECONDS, waiting would end in a kill: then a watching thread exits at
once, and the run goes on from its last epoch. The thread is woken by the C-level handler, because
Python's own handler has to wait while a backward pass runs in C.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@dataclass
class StopRequest:
    """Whether to stop, and what the loop knows about how long that takes.

    has_state: there is something that could be saved. step_seconds: the latest step's;
    write_seconds: the latest checkpoint's (0 = not known yet).
    """

    allowed_seconds: float
    step_seconds: float = 0.0
    write_seconds: float = 0.0
    has_state: bool = False
    signal_number: int | None = None
    _seen: int = field(default=0, repr=False)

    @property
    def requested(self) -> bool:
        """A signal came, and there is time to save."""
        return self.signal_number is not None

    @property
    def exit_code(self) -> int:
        """128 + the signal's number: 143 for SIGTERM, 130 for SIGINT."""
        return 128 + (self.signal_number or 0)

    def fits(self) -> bool:
        """A step and the write of its state take less than the time allowed."""
        return self.step_seconds + self.write_seconds <= self.allowed_seconds

    def receive(self, signal_number: int) -> None:
        """What a signal does: the first asks, or ends what need not or cannot be saved; a second
        ends."""
        self._seen += 1
        code = 128 + signal_number
        if self._seen > 1:
            _exit(
                code, "Second signal: exiting at once. The next start resumes from the last epoch."
            )
        if not self.has_state:
            _exit(code, "Stopped before the first step. There is nothing to save.")
        if not self.fits():
            _exit(
                code,
                f"A step ({self.step_seconds:.1f} s) and saving ({self.write_seconds:.1f} s) do "
                f"not fit into STOP_SECONDS={self.allowed_seconds:g}: exiting at once. The run "
                "goes on from its last epoch.",
            )
        self.signal_number = signal_number


@contextmanager
def stop_on_signals(allowed_seconds: float) -> Iterator[StopRequest]:
    """A Stop that follows SIGTERM and SIGINT while the block runs; only in the main thread."""
    stop = StopRequest(allowed_seconds)
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    # A handler must be there for the wake-up byte to be written; the thread does the rest.
    before = {number: signal.signal(number, lambda *_: None) for number in SIGNALS}
    old_wakeup = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    watcher = threading.Thread(target=_watch, args=(read_end, stop), name="signals", daemon=True)
    watcher.start()
    try:
        yield stop
    finally:
        signal.set_wakeup_fd(old_wakeup)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(write_end)
        watcher.join(timeout=1.0)


def _watch(read_end: int, stop: StopRequest) -> None:
    with os.fdopen(read_end, "rb", buffering=0) as woken:
        while numbers := woken.read(1):
            if numbers[0] in SIGNALS:
                stop.receive(numbers[0])


def _exit(code: int, sentence: str) -> None:
    """Leaves without cleaning up; children die with their parent, locks go with the process."""
    print(sentence, file=sys.stderr, flush=True)
    os._exit(code)
