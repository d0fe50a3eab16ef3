"""Pure steps of a cut: begun in any number, taken in their order.

A step is a function of its arguments alone, so that where it is computed changes no byte.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

T = TypeVar("T")


class Steps(Protocol):
    """ahead: how many steps are worth having begun before the first of them is taken."""

    ahead: int

    def begin(self, step: Callable[..., T], *arguments: object) -> Callable[[], T]:
        """Begins a step; what is returned waits for its result. Raises what the step raises."""
        ...

    def close(self) -> None: ...


class OwnSteps:
    """In this process, each when its result is asked for."""

    ahead = 0

    def begin(self, step: Callable[..., T], *arguments: object) -> Callable[[], T]:
        """As `Steps.begin`; nothing is computed before the result is taken."""
        return lambda: step(*arguments)

    def close(self) -> None:
        """There is nothing to give back."""


def in_order(begun: Iterable[Callable[[], T]], ahead: int) -> Iterator[T]:
    """The results in the order in which the steps were begun, `ahead` of them begun before."""
    waiting = deque[Callable[[], T]]()
    for one in begun:
        waiting.append(one)
        if len(waiting) > ahead:
            yield waiting.popleft()()
    while waiting:
        yield waiting.popleft()()
