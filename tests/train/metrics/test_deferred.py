"""Steps are told at once where looking is free, else together at the log interval."""

from dataclasses import replace
from types import SimpleNamespace

import torch

from tests.train.test_learner import a_batch
from train.learner import DeferredStepResult, StepResult
from train.metrics.deferred import DeferredMetrics
from train.metrics.logs import TrainedStep


def taken(step: int, result: StepResult | DeferredStepResult) -> TrainedStep:
    return TrainedStep(1, step, step, a_batch(), result, 0.0, 0.1, [])


def deferred(step: int) -> DeferredStepResult:
    return DeferredStepResult(torch.tensor([1.0, 2.0, float(step), 0.5]), 1e-4)


Told = list[tuple[int, float, float]]


def some_metrics(log_every: int) -> tuple[DeferredMetrics, list[int], Told]:
    """How many steps are looked at together each time; of each that is told: its number, loss and
    seconds."""
    looks: list[int] = []
    told: Told = []

    def read(steps: list[DeferredStepResult]) -> list[StepResult]:
        looks.extend([len(steps)] if steps else [])
        return [StepResult(*one.numbers.tolist(), one.learning_rate, True) for one in steps]

    def step(one: TrainedStep, result: StepResult, took: float) -> None:
        told.append((one.step, result.loss, took))

    learner, logs = SimpleNamespace(read_deferred=read), SimpleNamespace(step=step)
    return DeferredMetrics(learner, logs, log_every), looks, told


def test_what_is_known_is_told_at_once():
    metrics, looks, told = some_metrics(log_every=10)
    metrics.add(taken(1, StepResult(1.0, 2.0, 3.0, 0.5, 1e-4, True)))
    assert [one[:2] for one in told] == [(1, 3.0)] and looks == []


def test_the_device_is_looked_at_once_an_interval_and_no_step_is_lost():
    metrics, looks, told = some_metrics(log_every=4)
    for step in range(1, 11):
        metrics.add(taken(step, deferred(step)))
        assert len(told) == step // 4 * 4
    for _ in range(2):
        metrics.flush()  # an epoch ends, or somebody stops it
        assert looks == [4, 4, 2]
        assert [one[:2] for one in told] == [(step, float(step)) for step in range(1, 11)]


def test_what_happens_between_two_intervals_is_no_steps_time(monkeypatch):
    """A validation of 1,000 s behind the third of four steps of 2 s each."""
    now = 0.0
    monkeypatch.setattr("train.metrics.deferred.time.perf_counter", lambda: now)
    metrics, _, told = some_metrics(log_every=100)
    for step in range(1, 5):
        now += 2.0
        metrics.add(replace(taken(step, deferred(step)), step_seconds=2.0))
        if step == 3:
            metrics.flush()
            now += 1000.0
    metrics.flush()
    assert [seconds for *_, seconds in told] == [2.0] * 4
