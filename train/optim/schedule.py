"""SCHEDULE: the learning rate over the steps."""

import math
from dataclasses import dataclass

# After the warm-up, the rate is constant for this many steps, then falls with 1/sqrt(step). It
# depends only on the step, so that a larger NUM_EPOCHS continues a run instead of changing it.
HOLD_STEPS = 1000
# The share of the rate at the end of a cosine; at zero, a continued run would learn nothing.
COSINE_END = 0.1


@dataclass(frozen=True)
class Schedule:
    """The learning-rate schedule. name: SCHEDULE; total_steps: the end of a cosine."""

    name: str = "inverse_sqrt"
    warmup_steps: int = 0
    total_steps: int = 0

    def factor(self, step: int) -> float:
        """The factor of the peak rate at `step` (from 0), with a linear warm-up."""
        warm = min(1.0, (step + 1) / max(1, self.warmup_steps))
        if self.name == "constant":
            return warm
        if self.name == "cosine":
            left = max(1, self.total_steps - self.warmup_steps)
            done = min(1.0, max(0, step - self.warmup_steps) / left)
            return warm * (COSINE_END + (1 - COSINE_END) * (1 + math.cos(math.pi * done)) / 2)
        hold = max(HOLD_STEPS, self.warmup_steps)
        return warm * min(1.0, (hold / (step + 1)) ** 0.5)
