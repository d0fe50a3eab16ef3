"""SCHEDULE: the learning rate over the steps."""

import math
from dataclasses import dataclass

# After the warm-up the rate holds for so many steps, then falls with 1/sqrt(step). It depends on
# the step alone, so that a longer NUM_EPOCHS continues a run instead of changing it.
HOLD_STEPS = 1000
# What is left of the rate at a cosine's end: at zero nothing would learn where a run goes on.
COSINE_END = 0.1


@dataclass(frozen=True)
class Schedule:
    """name: SCHEDULE; total_steps: where a cosine ends."""

    name: str = "inverse_sqrt"
    warmup_steps: int = 0
    total_steps: int = 0

    def factor(self, step: int) -> float:
        """What the peak rate is multiplied with at `step` (from 0), after a linear warm-up."""
        warm = min(1.0, (step + 1) / max(1, self.warmup_steps))
        if self.name == "constant":
            return warm
        if self.name == "cosine":
            left = max(1, self.total_steps - self.warmup_steps)
            done = min(1.0, max(0, step - self.warmup_steps) / left)
            return warm * (COSINE_END + (1 - COSINE_END) * (1 + math.cos(math.pi * done)) / 2)
        hold = max(HOLD_STEPS, self.warmup_steps)
        return warm * min(1.0, (hold / (step + 1)) ** 0.5)
