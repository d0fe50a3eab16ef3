"""Activation checkpointing: the same numbers bit for bit, with less memory."""

import pytest
import torch

from tests.train.test_step import a_batch, a_learner, same, weights
from train.epoch_end import mean_losses
from train.optim.trainable import TrainableParts, recomputes
from train.step import train_step


def kept_bytes(learner) -> int:
    """The bytes that the transformer keeps for the backward pass of 60 positions."""
    seen: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        seen[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    own = {p.untyped_storage().data_ptr() for p in learner.gpt.parameters()}
    learner.gpt.train()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        learner.gpt.gpt(torch.randn(1, 60, 32, requires_grad=True))
    return sum(size for place, size in seen.items() if place not in own)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_gradients_and_steps_are_the_same_bits_with_dropout(precision):
    plain = a_learner(dropout=0.2, precision=precision)
    twice = a_learner(dropout=0.2, precision=precision, trainable=TrainableParts(recompute=True))
    for seed in range(3):
        one, other = train_step(plain, a_batch(seed)), train_step(twice, a_batch(seed))
        assert one == other
    assert same(weights(plain), weights(twice))


def test_blocks_really_run_twice_and_only_while_they_learn():
    learner = a_learner(trainable=TrainableParts(recompute=True))
    calls: list[bool] = []
    learner.gpt.gpt.h[0].attn.register_forward_hook(lambda *_: calls.append(True))
    train_step(learner, a_batch())
    assert len(calls) == 2
    mean_losses(learner, [a_batch()])
    assert len(calls) == 3


def test_less_is_kept():
    assert kept_bytes(a_learner(trainable=TrainableParts(recompute=True))) < kept_bytes(a_learner()) / 4


@pytest.mark.parametrize(
    ("setting", "room", "on"),
    [("on", 1, True), ("off", 1, False), ("auto", 14_000, True), ("auto", 15_000, False)],
)
def test_auto_looks_at_the_longest_clip_and_says_so(setting, room, on):
    found, reason = recomputes(setting, 10_000, room)
    assert found is on
    assert reason
