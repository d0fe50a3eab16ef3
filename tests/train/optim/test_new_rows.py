"""Rows of an added language learn at a separate rate, even in frozen tables."""

import copy

import pytest
import torch

from tests.installed import needs
from tests.train.test_step import a_batch, a_learner, same, weights
from train import defaults
from train.optim.trainable import TrainableParts
from train.step import train_step
from xtts.model.gpt import TEXT_TABLES

# Ids in `a_batch`, so that both kinds of rows get gradients.
NEW = (4, 5, 6)
FROZEN = ("conditioning_*", "text_*")


def learner(**parts):
    return a_learner(trainable=TrainableParts(new_rows=NEW, **parts), dropout=0.0)


def moved(one, steps: int = 1):
    """How far each row has moved, by table: (new rows, old rows)."""
    before = weights(one)
    for seed in range(steps):
        train_step(one, a_batch(seed))
    far = {name: (one.gpt.state_dict()[name] - before[name]).abs() for name in TEXT_TABLES}
    old = [row for row in range(len(far[TEXT_TABLES[0]])) if row not in NEW]
    return {name: (rows[list(NEW)], rows[old]) for name, rows in far.items()}


def test_new_rows_move_so_many_times_further_and_old_ones_as_before(monkeypatch):
    scaled = moved(learner())
    monkeypatch.setattr(defaults, "NEW_ROWS_RATE", 1.0)
    plain = moved(learner())
    for name in TEXT_TABLES:
        assert plain[name][0].max() > 0 and plain[name][1].max() > 0
        torch.testing.assert_close(scaled[name][0], 10 * plain[name][0], rtol=1e-3, atol=1e-7)
        assert torch.equal(scaled[name][1], plain[name][1])


@pytest.mark.parametrize("parts", [{"freeze": FROZEN}, {"lora_rank": 2}])
@pytest.mark.parametrize("optimizer", ["adamw", pytest.param("adamw8bit", marks=needs("eight_bit"))])
def test_in_frozen_tables_only_new_rows_learn(parts, optimizer):
    if "lora_rank" in parts:
        pytest.importorskip("peft")
    one = a_learner(
        trainable=TrainableParts(new_rows=NEW, **parts), dropout=0.0, optimizer=optimizer, weight_decay=0.1
    )
    for name, (new, old) in moved(one, steps=3).items():
        assert new.amax(-1).min() > 0, name
        assert old.max() == 0, name


def test_a_resumed_run_with_adapters_keeps_the_rows_that_it_learned():
    pytest.importorskip("peft")
    parts = {"lora_rank": 2, "ema_decay": 0.5}
    first, second = learner(**parts), learner(**parts)
    for seed in range(2):
        train_step(first, a_batch(seed))
    assert first.weights.adapter() is None  # an adapter file would lack the rows
    second.resume(first.model_state(), copy.deepcopy(first.trainer_state()), first.step)
    assert same(weights(first), weights(second))
    train_step(first, a_batch(2)), train_step(second, a_batch(2))
    assert same(first.model_state(), second.model_state())
