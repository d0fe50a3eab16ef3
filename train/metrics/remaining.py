"""Estimates the time that a run has left: steps, epoch ends and judging.

All functions are pure.
"""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class RemainingTime:
    """Measures each kind of work on its own, so that a slow kind does not distort the others.

    Attributes:
        judging: The seconds that judging will still take from an epoch on.
    """

    num_epochs: int
    steps_per_epoch: int
    judging: Callable[[int], float] = field(default=lambda _: 0.0)
    _step_seconds: float = 0.0
    _steps: int = 0
    _end_seconds: float = 0.0
    _ends: int = 0

    def step(self, seconds: float) -> None:
        """Counts a step of `seconds`, with its wait for data."""
        self._step_seconds += seconds
        self._steps += 1

    def ended(self, seconds: float) -> None:
        """Counts `seconds` after the last step of an epoch, without judging: validation, checkpoint
        and sample."""
        self._end_seconds += seconds
        self._ends += 1

    def left(self, epoch: int, number: int) -> float:
        """The remaining seconds after batch `number` of an epoch that has not ended."""
        steps = (self.num_epochs - epoch + 1) * self.steps_per_epoch - number
        each = self._step_seconds / max(1, self._steps)
        end = self._end_seconds / max(1, self._ends)
        return max(0, steps) * each + (self.num_epochs - epoch + 1) * end + self.judging(epoch)
