"""AdamW with averages of a byte: it learns, it goes on where it was, it is small."""

import sys

import pytest
import torch

from tests.train.test_learner import a_batch, a_learner, same, weights
from train.optim.factory import new_optimizer
from train.optim.optimizer import OptimizerError, state_bytes
from train.trainer import train_step


def eight(**changes):
    return a_learner(optimizer="adamw8bit", **changes)


@pytest.mark.slow
def test_it_learns_as_adamw_does():
    exact, rough = a_learner(dropout=0.0), eight(dropout=0.0)
    for number in range(40):
        one, other = train_step(exact, a_batch(number % 2)), train_step(rough, a_batch(number % 2))
    assert other.audio_loss == pytest.approx(one.audio_loss, rel=0.05)
    assert other.audio_loss < 2.0


def test_rates_reach_it():
    learner = eight(warmup_steps=10)
    before = weights(learner)
    rates = [train_step(learner, a_batch(seed)).learning_rate for seed in range(2)]
    assert rates == [pytest.approx(1e-4), pytest.approx(2e-4)]
    learner.config = None  # the rate alone moves the next step
    moved = max(float((now - before[n]).abs().max()) for n, now in weights(learner).items())
    assert 1e-4 < moved < 4e-4


def test_a_resumed_run_goes_on_bit_for_bit(tmp_path):
    straight, first, second = eight(), eight(), eight()
    for seed in range(4):
        train_step(straight, a_batch(seed))
    for seed in range(2):
        train_step(first, a_batch(seed))
    torch.save(first.trainer_state(), tmp_path / "state.pt")
    # Plain tensors: read without torchao, and by the strict reader.
    state = torch.load(tmp_path / "state.pt", weights_only=True)
    second.resume(first.model_state(), state, first.step)
    for seed in (2, 3):
        train_step(second, a_batch(seed))
    assert same(weights(straight), weights(second))


def test_large_tensors_take_two_bytes_a_weight():
    weight = torch.nn.Parameter(torch.zeros(64, 1024))
    optimizer = new_optimizer("adamw8bit", [{"params": [weight], "weight_decay": 0.01}], 1e-3)
    weight.grad = torch.ones_like(weight)
    optimizer.step()
    assert weight.numel() * 2 <= state_bytes(optimizer.state_dict()) < weight.numel() * 2.1


@pytest.mark.parametrize(("old", "new"), [("adamw", "adamw8bit"), ("adamw8bit", "adamw")])
def test_the_other_ones_state_is_refused_in_words(old: str, new: str):
    first, second = a_learner(optimizer=old), a_learner(optimizer=new)
    train_step(first, a_batch())
    with pytest.raises(OptimizerError, match=f"is of OPTIMIZER={old}, and .*OPTIMIZER={new}"):
        second.resume(first.model_state(), first.trainer_state(), 1)


def test_without_torchao_a_sentence_says_what_to_type(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchao.optim", None)
    with pytest.raises(OptimizerError, match=r"needs torchao.*sotaque\[adamw8bit\]"):
        eight()
