"""Handles SIGTERM, SIGINT and the SIGHUP of a terminal that closes: finishes the step, saves, exits.

The handler does no I/O, because a signal may arrive during a write. If a step and the write of its
state do not fit into STOP_SECONDS, waiting would end in a kill: then a thread exits at once, and
the run resumes from its last epoch. The C-level handler wakes the thread, because Python's own
handler has to wait while a backward pass runs in C.
"""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from train.distributed import Agreement, World

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass
class StopRequest:
    """Whether to stop, and how long that takes.

    has_state: whether there is a state to save. step_seconds: the duration of the latest step;
    write_seconds: of the latest checkpoint (0 = not known yet).
    """

    allowed_seconds: float
    step_seconds: float = 0.0
    write_seconds: float = 0.0
    has_state: bool = False
    signal_number: int | None = None
    _seen: int = field(default=0, repr=False)

    @property
    def requested(self) -> bool:
        """Whether a signal came and there is time to save."""
        return self.signal_number is not None

    def agreed(self, world: World, agreement: Agreement | None = None) -> bool:
        """Whether a signal came, to this process or to any other of the run.

        Several processes agree on it with each batch (agreement), so the answer is at most two
        steps old.
        """
        if world.is_single_process:
            return self.requested
        any_requested = agreement.stop if agreement else bool(world.all_reduce(float(self.requested))[0])
        if any_requested and not self.requested:
            self.signal_number = signal.SIGTERM
        return any_requested

    @property
    def exit_code(self) -> int:
        """128 + the signal's number: 143 for SIGTERM, 130 for SIGINT, 129 for SIGHUP."""
        return 128 + (self.signal_number or 0)

    def fits(self) -> bool:
        """Whether a step and the write of its state fit into the allowed time."""
        return self.step_seconds + self.write_seconds <= self.allowed_seconds

    def receive(self, signal_number: int) -> None:
        """Handles a signal. The first asks the loop to stop, or exits if there is no state or no
        time to save it; a second exits. A closing terminal may send SIGHUP twice."""
        if self._seen and signal_number == signal.SIGHUP:
            return
        self._seen += 1
        code = 128 + signal_number
        if self._seen > 1:
            _exit(code, "Second signal: exiting at once. The next start resumes from the last epoch.")
        if not self.has_state:
            _exit(code, "Stopped before the first step. There is nothing to save.")
        if not self.fits():
            _exit(
                code,
                f"A step ({self.step_seconds:.1f} s) and saving ({self.write_seconds:.1f} s) do "
                f"not fit into STOP_SECONDS={self.allowed_seconds:g}: exiting at once. The run "
                "resumes from its last epoch.",
            )
        self.signal_number = signal_number


@contextmanager
def stop_on_signals(allowed_seconds: float) -> Iterator[StopRequest]:
    """A StopRequest that `SIGNALS` set while the block runs; only in the main thread. After `nohup`,
    SIGHUP stays ignored."""
    stop = StopRequest(allowed_seconds)
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    # Python writes the wake-up byte only if a handler is set; the thread does the rest.
    before = {
        number: signal.signal(number, lambda *_: None)
        for number in SIGNALS
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN
    }
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
    """Exits without cleaning up; children die with the process, and its locks are released."""
    with contextlib.suppress(OSError):  # the terminal has closed
        print(sentence, file=sys.stderr, flush=True)
    os._exit(code)
