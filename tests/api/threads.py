"""Calls that start at the same moment."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def at_once(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Runs each call in a thread, released together by a barrier. Returns the results in order."""
    barrier = threading.Barrier(len(calls))

    def held(call: Callable[[], T]) -> T:
        barrier.wait(30)
        return call()

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(held, calls))
