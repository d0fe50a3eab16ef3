"""Shows the progress of long work, and runs work ahead of its consumer or in threads.

Progress is a bar on a terminal, otherwise an occasional log line. Quick work shows nothing.
"""

import logging
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import BinaryIO, TypeVar

S = TypeVar("S")
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


def lookahead(begun: Iterable[T], ahead: int) -> Iterator[T]:
    """Yields the items in order and takes `ahead` more before each. If taking an item starts its
    work, as in a generator of `pool.submit(…)`, the work runs ahead of the consumer."""
    waiting = deque[T]()
    for item in begun:
        waiting.append(item)
        if len(waiting) > ahead:
            yield waiting.popleft()
    yield from waiting


def in_threads(work: Callable[[S], T], items: Sequence[S], portion: int) -> Iterator[T]:
    """Yields the results of `work` in the order of the items. portion: the number of items that a
    thread takes at once, for work so quick that handing over an item takes as long."""
    portions = (items[start : start + portion] for start in range(0, len(items), portion))
    with ThreadPoolExecutor() as pool:
        for done in pool.map(lambda some: [work(item) for item in some], portions):
            yield from done
