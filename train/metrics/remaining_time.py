"""RemainingTime: how long a run still takes, by the mean time of each kind of its work."""

from dataclasses import dataclass


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
