"""Runs work ahead of its consumer or in threads, with the results in the order of the items."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

S = TypeVar("S")
T = TypeVar("T")


def lookahead(items: Iterable[T], ahead: int) -> Iterator[T]:
    """Yields the items in order and takes `ahead` more before each. If taking an item starts its
    work, as in a generator of `pool.submit(…)`, the work runs ahead of the consumer."""
    waiting = deque[T]()
    for item in items:
        waiting.append(item)
        if len(waiting) > ahead:
            yield waiting.popleft()
    yield from waiting


def in_threads(work: Callable[[S], T], items: Sequence[S], portion: int) -> Iterator[T]:
    """Yields the results of `work` in the order of the items. portion: the number of items that a
    thread takes at once, for work so quick that handing over an item takes as long."""
    portions = (items[start : start + portion] for start in range(0, len(items), portion))
    with ThreadPoolExecutor() as pool:
        for results in pool.map(lambda portion: [work(item) for item in portion], portions):
            yield from results
