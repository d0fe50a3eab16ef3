"""The heartbeat to the watchdog after each step, with more time for saving and sampling.

    no heartbeat for max(10 x the usual step, stall_seconds)  ->  stacks of all threads, exit 75

The watchdog is a process (`train.resilience.watchdog`). This is the trainer's side, which decides
how long the next heartbeat may take.
"""

import contextlib
import faulthandler
import logging
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from train.resilience import watchdog

log = logging.getLogger("train")

T = TypeVar("T")

EXIT_CODE = 75
USUAL_STEPS = 10
# The first steps are slow: they compile, choose kernels and read uncached files.
STEPS_TO_KNOW = 3
_REMEMBERED_STEPS = 50


def allowed_seconds(steps: Sequence[float], stall_seconds: float) -> float:
    """How many seconds the next step may take. steps: the seconds of earlier steps."""
    if len(steps) < STEPS_TO_KNOW:
        return USUAL_STEPS * stall_seconds
    return max(stall_seconds, USUAL_STEPS * statistics.median(steps))


class Heartbeat:
    """`with` starts the watchdog and ends it; without it, nothing is sent.

    There is no time limit before the first `watch` or `allow`.
    """

    def __init__(self, stall_seconds: float) -> None:
        self.stall_seconds = stall_seconds
        self._child: subprocess.Popen[bytes] | None = None
        self._beats: int | None = None
        # By activity: a validation step is shorter than a training step.
        self._steps: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_REMEMBERED_STEPS))

    def __enter__(self) -> "Heartbeat":
        # faulthandler writes in C, in the thread that gets the signal, even if the GIL is never
        # released.
        faulthandler.register(signal.SIGUSR1, file=2, all_threads=True)
        read_end, self._beats = os.pipe()
        os.set_blocking(self._beats, False)
        leaving, leave = os.pipe()
        words = (str(Path(watchdog.__file__)), str(os.getpid()), str(read_end), str(leave))
        self._child = subprocess.Popen(
            (sys.executable, "-I", "-S", *words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=(read_end, leave),
        )
        os.close(read_end)
        os.close(leave)
        threading.Thread(target=_leave_with_watchdog, args=(leaving,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._child is not None
        if self._beats is not None:
            os.close(self._beats)
            self._beats = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(timeout=1.0)  # it ends when the pipe closes
        if self._child.poll() is None:
            self._child.kill()
            self._child.wait()
        faulthandler.unregister(signal.SIGUSR1)

    def watch(self, items: Iterable[T], doing: str) -> Iterator[T]:
        """Yields the items, and sends a heartbeat whenever the next one is requested."""
        steps = self._steps[doing]
        began = time.monotonic()
        self._sign(allowed_seconds(steps, self.stall_seconds), doing)
        for item in items:
            yield item
            steps.append(time.monotonic() - began)
            began = time.monotonic()
            self._sign(allowed_seconds(steps, self.stall_seconds), doing)
        self._sign(self.stall_seconds, f"{doing} ended")

    @contextmanager
    def allow(self, seconds: float, doing: str) -> Iterator[None]:
        """Allows the block this many seconds without a heartbeat."""
        self._sign(seconds, doing)
        try:
            yield
        finally:
            self._sign(self.stall_seconds, f"{doing} ended")

    def _sign(self, allowed: float, doing: str) -> None:
        if self._beats is None:
            return
        try:
            os.write(self._beats, f"{allowed:.3f} {doing}\n".encode())
        except BlockingIOError:  # the watchdog is stopped or busy: it will read later ones
            pass
        except BrokenPipeError:
            log.warning("The watchdog has ended. A stall will not be detected.")
            os.close(self._beats)
            self._beats = None


def _leave_with_watchdog(leaving: int) -> None:
    """Ends the process for the watchdog; ends alone with the watchdog. Needs the GIL: a process
    that stalls with it is killed instead."""
    with open(leaving, "rb", buffering=0) as pipe:
        if pipe.read(1):
            os._exit(EXIT_CODE)
