"""Long work: its progress, and its items ahead of the consumer or in many threads at once.

Progress is a bar on a terminal, otherwise an occasional log line. Quick work shows nothing.
"""

import logging
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, BinaryIO, TypeVar

S = TypeVar("S")
T = TypeVar("T")

log = logging.getLogger("train")

_TELL_EVERY_SECONDS = 10.0


class Progress:
    """Counts up to a total; a context, which removes what a terminal shows.

    Args:
        total: In `unit`, such as clips, or seconds of sound.
        patience_seconds: Nothing is shown for what takes less.
    """

    def __init__(
        self, what: str, total: float, unit: str, *, patience_seconds: float = 0.0
    ) -> None:
        from tqdm import tqdm

        self.what = what
        self.total = total
        self.unit = unit
        self.done = 0.0
        self._quiet = not sys.stderr.isatty()
        self._bar = tqdm(
            desc=what, total=total, unit=unit, disable=self._quiet, delay=patience_seconds
        )
        self._began = self._told = time.monotonic()

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._bar.close()

    def add(self, amount: float = 1) -> None:
        """So much more is done."""
        now = time.monotonic()
        if not amount and not self.done:
            self._began = now  # what only prepares says nothing about how fast the work is
        self.done += amount
        self._bar.update(amount)
        if self._quiet and self.done and now - self._told >= _TELL_EVERY_SECONDS:
            self._told = now
            left = (now - self._began) * (self.total - self.done) / max(self.done, 1e-9)
            log.info(
                "%s: %.0f of %.0f %s, left %s", self.what, self.done, self.total, self.unit,
                clock(left),
            )  # fmt: skip

    def reach(self, share: float) -> None:
        """This share of the total is done, of 1."""
        self.add(share * self.total - self.done)


class CountingFile:
    """A file whose bytes are counted as they are written; for who only writes into it."""

    def __init__(self, file: BinaryIO, progress: Progress) -> None:
        self._file = file
        self._progress = progress

    def write(self, data: Any) -> int:
        """As the file's own."""
        written = self._file.write(data)
        self._progress.add(written / 1e6)
        return written

    def flush(self) -> None:
        """As the file's own."""
        self._file.flush()


def with_progress(
    items: Iterable[T], total: int, what: str, unit: str = "clips", *,
    patience_seconds: float = 0.0,
) -> Iterator[T]:  # fmt: skip
    """The items one by one; each is done when the next one is asked for."""
    with Progress(what, total, unit, patience_seconds=patience_seconds) as progress:
        for item in items:
            yield item
            progress.add()


def clock(seconds: float) -> str:
    """Hours, minutes and seconds: 1:02:03."""
    whole = max(0, int(seconds))
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


def lookahead(begun: Iterable[T], ahead: int) -> Iterator[T]:
    """The same items in their order; of an iterable that begins each as it is taken, such as
    `pool.submit(…)`, `ahead` more are begun before one is handed out."""
    waiting = deque[T]()
    for one in begun:
        waiting.append(one)
        if len(waiting) > ahead:
            yield waiting.popleft()
    yield from waiting


def in_threads(work: Callable[[S], T], items: Sequence[S], portion: int) -> Iterator[T]:
    """`work` on each item, in their order. portion: how many a thread takes at once, where handing
    over one costs as much as working on it."""
    portions = (items[start : start + portion] for start in range(0, len(items), portion))
    with ThreadPoolExecutor() as pool:
        for done in pool.map(lambda some: [work(one) for one in some], portions):
            yield from done
