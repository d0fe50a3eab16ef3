"""Reads losses from the GPU only at the log interval, several steps at once.

A GPU computes while the host is steps ahead. To read a loss is to wait for it, so the numbers of
several steps are read together, and their time is the mean of the interval.
"""

import time
from dataclasses import dataclass, field

from train.dataset.batches import Batch
from train.learner import Learner
from train.metrics.logs import Logs
from train.optim.optimizer_step import DeferredStepResult
from train.optim.step_outcome import StepResult


@dataclass(frozen=True)
class PendingStep:
    """One step: batch `number` of the epoch, step `step` of the run, seconds."""

    epoch: int
    number: int
    step: int
    batch: Batch
    result: StepResult | DeferredStepResult
    waited_seconds: float
    step_seconds: float
    names: list[str]
    flops: float = 0.0


@dataclass
class DeferredMetrics:
    """Keeps steps until their numbers are looked at: every `log_every` steps, and when asked."""

    learner: Learner
    logs: Logs
    log_every: int
    kept: list[PendingStep] = field(default_factory=list)
    since: float = field(default_factory=time.perf_counter)

    def add(self, taken: PendingStep) -> None:
        """Raises NonFiniteError, where it looks."""
        if not self.kept:
            # Validation and samples, since the last look, are no step's time.
            self.since = time.perf_counter() - taken.step_seconds
        self.kept.append(taken)
        if isinstance(taken.result, StepResult) or taken.step % self.log_every == 0:
            self.look()

    def look(self) -> None:
        """Tells every step that is kept. Raises NonFiniteError; no weight moved by then."""
        kept, self.kept = self.kept, []
        unseen = [taken.result for taken in kept if isinstance(taken.result, DeferredStepResult)]
        seen = iter(self.learner.seen(unseen))
        mean = (time.perf_counter() - self.since) / max(1, len(kept))
        for taken in kept:
            known = isinstance(taken.result, StepResult)
            result = taken.result if isinstance(taken.result, StepResult) else next(seen)
            took = taken.step_seconds if known else max(mean, taken.waited_seconds)
            self.logs.step(
                taken.epoch, taken.number, taken.step, taken.batch, result, taken.waited_seconds,
                took, taken.names, taken.flops,
            )  # fmt: skip
