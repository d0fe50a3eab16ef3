"""Shows the progress of long work: a bar on a terminal, otherwise an occasional log line.

Quick work shows nothing. `RemainingTime` estimates how long a run still takes.
"""

import logging
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import BinaryIO, TypeVar

T = TypeVar("T")

log = logging.getLogger("train")

_TELL_EVERY_SECONDS = 10.0
# Shorter work shows no bar.
_PATIENCE_SECONDS = 2.0


class Progress:
    """Counts up to a total, in `unit`, such as clips or seconds of sound. `with` removes the bar
    from the terminal."""

    def __init__(self, what: str, total: float, unit: str) -> None:
        from tqdm import tqdm

        self.what = what
        self.total = total
        self.unit = unit
        self.done = 0.0
        self._quiet = not sys.stderr.isatty()
        self._bar = tqdm(desc=what, total=total, unit=unit, disable=self._quiet, delay=_PATIENCE_SECONDS)
        self._began = self._told = time.monotonic()

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.close()

    def add(self, amount: float = 1) -> None:
        """Adds to the finished work."""
        now = time.monotonic()
        if not amount and not self.done:
            self._began = now  # preparation says nothing about the speed of the work
        self.done += amount
        self._bar.update(amount)
        if self._quiet and self.done and now - self._told >= _TELL_EVERY_SECONDS:
            self._told = now
            left = (now - self._began) * (self.total - self.done) / max(self.done, 1e-9)
            log.info("%s: %.0f of %.0f %s, left %s", self.what, self.done, self.total, self.unit, clock(left))

    def reach(self, share: float) -> None:
        """Sets the finished work to a share of the total, from 0 to 1."""
        self.add(share * self.total - self.done)


class CountingFile:
    """Wraps a file that is only written, and counts its bytes."""

    def __init__(self, file: BinaryIO, progress: Progress) -> None:
        self._file = file
        self._progress = progress

    def write(self, data: bytes) -> int:
        """Writes to the file."""
        written = self._file.write(data)
        self._progress.add(written / 1e6)
        return written

    def flush(self) -> None:
        """Flushes the file."""
        self._file.flush()


def with_progress(items: Iterable[T], total: int, what: str, unit: str = "clips") -> Iterator[T]:
    """Yields the items. Each counts as finished when the next one is requested."""
    with Progress(what, total, unit) as progress:
        for item in items:
            yield item
            progress.add()


def clock(seconds: float) -> str:
    """Hours, minutes and seconds: 1:02:03."""
    whole = max(0, int(seconds))
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


@dataclass
class RemainingTime:
    """Measures each kind of work separately, so that a slow kind does not distort the others.

    Attributes:
        conclusion_seconds: That the evaluation takes after the last epoch.
    """

    num_epochs: int
    steps_per_epoch: int
    conclusion_seconds: float = 0.0
    _step_seconds: float = 0.0
    _steps: int = 0
    _end_seconds: float = 0.0
    _ends: int = 0

    def step(self, seconds: float) -> None:
        """Counts a step of `seconds`, with its wait for data."""
        self._step_seconds += seconds
        self._steps += 1

    def end_epoch(self, seconds: float) -> None:
        """Counts `seconds` after the last step of an epoch: validation, checkpoint, sample and
        judging."""
        self._end_seconds += seconds
        self._ends += 1

    def seconds_left(self, epoch: int, number: int) -> float:
        """The remaining seconds after batch `number` of an epoch that has not ended."""
        steps = (self.num_epochs - epoch + 1) * self.steps_per_epoch - number
        each = self._step_seconds / max(1, self._steps)
        end = self._end_seconds / max(1, self._ends)
        return max(0, steps) * each + (self.num_epochs - epoch + 1) * end + self.conclusion_seconds
