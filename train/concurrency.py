"""Runs work ahead of the consumer, or in many threads at once."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

S = TypeVar("S")
T = TypeVar("T")


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
