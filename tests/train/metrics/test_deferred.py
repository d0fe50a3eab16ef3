"""Steps are told at once where looking is free, else together at the log interval."""

from dataclasses import replace

import torch

from tests.train.test_learner import a_batch
from train.learner import DeferredStepResult, StepResult
from train.metrics.deferred import DeferredMetrics
from train.metrics.logs import TrainedStep


class FakeLearner:
    """Tells how many steps were looked at together."""

    def __init__(self) -> None:
        self.looks: list[int] = []

    def read_deferred(self, steps: list[DeferredStepResult]) -> list[StepResult]:
        if steps:
            self.looks.append(len(steps))
        return [StepResult(*one.numbers.tolist(), one.learning_rate, True) for one in steps]


class FakeLogs:
    def __init__(self) -> None:
        self.told: list[tuple[int, float]] = []

        self.seconds: list[float] = []

    def step(self, one: TrainedStep, result: StepResult, took: float) -> None:
        self.told.append((one.step, result.loss))
        self.seconds.append(took)


def taken(step: int, result: StepResult | DeferredStepResult) -> TrainedStep:
    return TrainedStep(1, step, step, a_batch(), result, 0.0, 0.1, [])


def deferred(step: int) -> DeferredStepResult:
    return DeferredStepResult(torch.tensor([1.0, 2.0, float(step), 0.5]), 1e-4)


def some_metrics(log_every: int) -> tuple[DeferredMetrics, FakeLearner, FakeLogs]:
    learner, logs = FakeLearner(), FakeLogs()
    return DeferredMetrics(learner, logs, log_every), learner, logs


def test_what_is_known_is_told_at_once():
    metrics, learner, logs = some_metrics(log_every=10)
    metrics.add(taken(1, StepResult(1.0, 2.0, 3.0, 0.5, 1e-4, True)))
    assert logs.told == [(1, 3.0)] and learner.looks == []


def test_the_device_is_looked_at_once_an_interval_and_no_step_is_lost():
    metrics, learner, logs = some_metrics(log_every=4)
    for step in range(1, 11):
        metrics.add(taken(step, deferred(step)))
        assert len(logs.told) == step // 4 * 4
    metrics.flush()  # an epoch ends, or somebody stops it
    assert learner.looks == [4, 4, 2]
    assert logs.told == [(step, float(step)) for step in range(1, 11)]
    metrics.flush()
    assert len(logs.told) == 10


def test_what_happens_between_two_intervals_is_no_steps_time(monkeypatch):
    """A validation of 1,000 s behind the third of four steps of 2 s each."""
    now = 0.0
    monkeypatch.setattr("train.metrics.deferred.time.perf_counter", lambda: now)
    metrics, _, logs = some_metrics(log_every=100)
    for step in range(1, 5):
        now += 2.0
        metrics.add(replace(taken(step, deferred(step)), step_seconds=2.0))
        if step == 3:
            metrics.flush()
            now += 1000.0
    metrics.flush()
    assert logs.seconds == [2.0] * 4
