"""Memory that stays short in a step: batches are smaller from there on, reproducibly."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.train.test_run import assert_same_end, content, losses
from train import step, trainer
from train.dataset.batches import Batches
from train.step import Learner
from xtts.voices.run_folder import RunFolder

EPOCHS = 3
SETTINGS = {"BATCH_SECONDS": "2.4"}


def short_memory(at: int, times: int = 2) -> Callable[..., Any]:
    """From step `at` (from 0), gradients of several clips do not fit, up to `times` times."""
    real, left = step.forward_backward, [times]

    def backward(learner: Learner, batch: Any) -> Any:
        if learner.step >= at and left[0] and (len(batch.clips) > 1 or times > 100):
            left[0] -= 1
            real(learner, batch)  # some gradients exist before the error
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GB")
        return real(learner, batch)

    return backward


@pytest.fixture(scope="module")
def halved(workshop) -> RunFolder:
    """Three epochs; a batch does not fit after the first step of the first epoch."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(step, "forward_backward", short_memory(1))
        return workshop.run("halved", EPOCHS, **SETTINGS)


@pytest.mark.slow
def test_the_budget_is_halved_and_the_run_goes_on(halved, workshop):
    straight = workshop.run("straight", EPOCHS, **SETTINGS)
    assert len(losses(halved)) > len(losses(straight))
    assert losses(halved)[0] == losses(straight)[0]
    state = content(halved.state_path(EPOCHS))["trainer"]
    assert state["batch_seconds"] == 2.4
    ((epoch, batch, seconds),) = state["halvings"]
    assert epoch == 1 and batch >= 1 and seconds <= 1.2


@pytest.mark.slow
def test_every_clip_is_learned_once_an_epoch_all_the_same(workshop, monkeypatch):
    made: list[tuple[int, tuple[int, ...]]] = []
    real = trainer.train_step

    def counted(learner: Learner, batch: Any, **how: Any) -> Any:
        result = real(learner, batch, **how)
        made.append((learner.step, batch.clips))
        return result

    monkeypatch.setattr(step, "forward_backward", short_memory(1))
    monkeypatch.setattr(trainer, "train_step", counted)
    workshop.run("counted", 1, **SETTINGS)
    clips = [clip for _, group in made for clip in group]
    assert len(clips) == len(set(clips)) == 11


@pytest.mark.slow
def test_a_resumed_run_has_the_same_batches(halved, workshop):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(step, "forward_backward", short_memory(1))
        workshop.run("resumed", 1, **SETTINGS)
    assert_same_end(halved, workshop.run("resumed", EPOCHS, **SETTINGS), EPOCHS)


@pytest.mark.slow
def test_a_stop_behind_the_halving_goes_on_inside_the_epoch(halved, workshop):
    with pytest.MonkeyPatch.context() as patched:
        real = trainer.Trainer._log_step

        def logged(run: trainer.Trainer, *told: Any) -> None:
            real(run, *told)
            if run.batches.halvings and run.learner.step > run.batches.halvings[0].batch:
                run.stop.signal_number = 15

        patched.setattr(step, "forward_backward", short_memory(1))
        patched.setattr(trainer.Trainer, "_log_step", logged)
        run = workshop.run("stopped", EPOCHS, expect=143, **SETTINGS)
        kept = content(run.interrupted)
        assert kept["provenance"]["batch"] == kept["trainer"]["halvings"][0][1] + 1
        assert run.epochs() == []
    assert_same_end(halved, workshop.run("stopped", EPOCHS, **SETTINGS), EPOCHS)


@pytest.mark.slow
def test_short_again_it_is_halved_again(workshop, caplog):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(step, "forward_backward", short_memory(0, times=4))
        run = workshop.run("twice", 1, BATCH_SECONDS="40")
    (_, first, one), (_, second, other) = content(run.state_path(1))["trainer"]["halvings"]
    assert first == second == 0 and other <= one / 2
    assert caplog.text.count("Out of memory") == 2


@pytest.mark.slow
def test_a_single_clip_that_does_not_fit_ends_the_run_in_words(workshop, monkeypatch, caplog):
    monkeypatch.setattr(step, "forward_backward", short_memory(0, times=1000))
    with pytest.raises(torch.OutOfMemoryError):  # on a GPU: GpuLost with its sentence
        workshop.run("single", 1, **SETTINGS)
    assert "Out of memory" in caplog.text


def test_auto_is_told_with_its_reason_and_kept(workshop, caplog, monkeypatch):
    run = workshop.run("auto", 1, BATCH_SECONDS="auto")
    assert "fits into half of" in caplog.text
    budget = content(run.state_path(1))["trainer"]["batch_seconds"]
    # Nothing to learn: only the memory is inspected.
    monkeypatch.setattr(Batches, "epoch", lambda *_: iter(()))
    caplog.clear()
    workshop.run("auto", 2, BATCH_SECONDS="auto")
    assert f"Batches: {budget:g} s of audio (as at the start of this run)" in caplog.text
    assert json.dumps(budget)
