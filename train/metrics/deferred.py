"""Reads losses from the GPU only at the log interval, several steps at once.

A GPU computes while the host is steps ahead. To read a loss is to wait for it, so the numbers of
several steps are read together, and their time is the mean of the interval.
"""

import time
from dataclasses import dataclass, field

from train.learner import DeferredStepResult, Learner, StepResult
from train.metrics.logs import Logs, TrainedStep


@dataclass
class DeferredMetrics:
    """Keeps steps until their numbers are read: every `log_every` steps, and at `flush`. logs:
    None where another rank tells them."""

    learner: Learner
    logs: Logs | None
    log_every: int
    pending: list[TrainedStep] = field(default_factory=list)
    since: float = field(default_factory=time.perf_counter)

    def add(self, step: TrainedStep) -> None:
        """Raises NonFiniteError, where it reads."""
        if not self.pending:
            # Validation and samples, since the last flush, are no step's time.
            self.since = time.perf_counter() - step.step_seconds
        self.pending.append(step)
        if isinstance(step.result, StepResult) or step.step % self.log_every == 0:
            self.flush()

    def flush(self) -> None:
        """Logs every pending step. Raises NonFiniteError; no weight moved by then."""
        pending, self.pending = self.pending, []
        deferred = [one.result for one in pending if isinstance(one.result, DeferredStepResult)]
        read = iter(self.learner.read_deferred(deferred))
        mean = (time.perf_counter() - self.since) / max(1, len(pending))
        for one in pending:
            if isinstance(one.result, StepResult):
                result, took = one.result, one.step_seconds
            else:
                result, took = next(read), max(mean, one.waited_seconds)
            if self.logs:
                self.logs.step(one, result, took)
