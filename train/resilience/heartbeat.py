"""The heartbeat to the watchdog after each step, with more time for saving and sampling.

    nothing for max(10 x the usual step, STALL_SECONDS)  ->  stacks of all threads, exit 75

The watchdog is a process (`train.resilience.watchdog`); this is the trainer's side, and the
decision how long the next sign may take.
"""

import contextlib
import faulthandler
import logging
import os
import signal
import statistics
import subprocess
import sys
import time
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from train.resilience import watchdog
from train.resilience.tripwire import tripwire

log = logging.getLogger("train")

T = TypeVar("T")

EXIT_CODE = 75
USUAL_STEPS = 10
# A machine's first steps compile, choose kernels and read cold files.
STEPS_TO_KNOW = 3
_REMEMBERED_STEPS = 50


def allowed_seconds(steps: Sequence[float], stall_seconds: float) -> float:
    """How long the next step may take, after steps that took so many seconds."""
    if len(steps) < STEPS_TO_KNOW:
        return USUAL_STEPS * stall_seconds
    return max(stall_seconds, USUAL_STEPS * statistics.median(steps))


class Heartbeat:
    """`with` starts the watchdog and ends it. stall_seconds: STALL_SECONDS; None = no watchdog.

    It waits for nothing before the first `watch` or `allow`.
    """

    def __init__(self, stall_seconds: float | None) -> None:
        self.stall_seconds = stall_seconds
        self._child: subprocess.Popen[bytes] | None = None
        self._beats: int | None = None
        # By what is done: a step of validation is shorter than one that learns.
        self._steps: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_REMEMBERED_STEPS))

    def __enter__(self) -> "Heartbeat":
        if self.stall_seconds is not None:
            self._start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._child is None or self._beats is None:
            return
        os.close(self._beats)
        self._beats = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(timeout=1.0)  # the end of the pipe is the end of it
        if self._child.poll() is None:
            self._child.kill()
            self._child.wait()
        faulthandler.unregister(signal.SIGUSR1)

    @property
    def pid(self) -> int | None:
        """The watchdog's process id while there is one."""
        return self._child.pid if self._child and self._child.poll() is None else None

    def watch(self, items: Iterable[T], doing: str) -> Iterator[T]:
        """The items; a sign of life whenever the next one is asked for."""
        steps = self._steps[doing]
        stall = self.stall_seconds or 0.0
        began = time.monotonic()
        self._sign(allowed_seconds(steps, stall), doing)
        for item in items:
            yield item
            steps.append(time.monotonic() - began)
            began = time.monotonic()
            self._sign(allowed_seconds(steps, stall), doing)
        self._sign(self.stall_seconds, f"{doing} ended")

    @contextmanager
    def allow(self, seconds: float, doing: str) -> Iterator[None]:
        """The block may take so long without a sign."""
        self._sign(seconds, doing)
        try:
            yield
        finally:
            self._sign(self.stall_seconds, f"{doing} ended")

    def _start(self) -> None:
        # Written in C by whichever thread gets the signal: also under a GIL that is never let go.
        faulthandler.register(signal.SIGUSR1, file=_console(), all_threads=True)
        read_end, self._beats = os.pipe()
        os.set_blocking(self._beats, False)
        wire = tripwire(EXIT_CODE)
        words = (os.getpid(), read_end, -1 if wire is None else wire)
        self._child = subprocess.Popen(
            (sys.executable, "-I", "-S", str(Path(watchdog.__file__)), *map(str, words)),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            pass_fds=(read_end, *(() if wire is None else (wire,))),
        )  # fmt: skip
        os.close(read_end)

    def _sign(self, allowed: float | None, doing: str) -> None:
        if self._beats is None or allowed is None:
            return
        try:
            os.write(self._beats, f"{allowed:.3f} {doing}\n".encode())
        except BlockingIOError:  # it is stopped, or has no time to read: it gets later ones
            pass
        except BrokenPipeError:
            log.warning("The watchdog has ended. A stall will not be detected.")
            os.close(self._beats)
            self._beats = None


def _console() -> int:
    try:
        return sys.stderr.fileno()
    except (OSError, ValueError, AttributeError):  # a test that has put something in its place
        return 2
