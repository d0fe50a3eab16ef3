"""Casting weights together equals autocast: the same numbers, forwards and backwards."""

import dataclasses
from contextlib import nullcontext
from unittest import mock

import pytest
import torch
from torch import nn

from benchmarks.synthetic import noise_batch
from demo_voice.new_gpt import new_gpt
from tests.operations import OperationCounter, small_shape
from tests.train.test_step import RECIPE
from train.optim.trainable import TrainableParts
from train.step import Learner, forward_backward
from xtts.model import casting
from xtts.model.casting import cast_together

# Text tokens, codes and frames of each clip.
CLIPS = noise_batch(small_shape(2), ((30, 65, 260), (70, 150, 400)), 20.0)


def gradients(learner: Learner, together: bool) -> tuple[list[float], dict[str, torch.Tensor]]:
    """Losses and gradients of a step, computed as on a GPU."""
    learner.optimizer.zero_grad()
    with (
        mock.patch.object(casting, "launches_matter", lambda _: True),
        nullcontext() if together else mock.patch.object(casting, "cast_together", lambda _: nullcontext()),
    ):
        losses, _ = forward_backward(learner, CLIPS)
    by_name = {
        name: weight.grad.clone()
        for name, weight in learner.gpt.named_parameters()
        if weight.grad is not None
    }
    return [float(losses.text.detach()), float(losses.audio.detach())], by_name


@pytest.mark.parametrize(
    ("precision", "learning"),
    [
        ("bf16", TrainableParts()),
        ("fp16", TrainableParts()),
        ("fp32", TrainableParts()),
        ("bf16", TrainableParts(recompute=True)),
        ("bf16", TrainableParts(freeze=("gpt.h.0.*",))),
        ("bf16", TrainableParts(lora_rank=4)),
    ],
    ids=["bf16", "fp16", "fp32", "recomputed", "frozen", "lora"],
)
def test_a_step_is_the_same_bit_for_bit(precision, learning):
    recipe = dataclasses.replace(RECIPE, precision=precision, trainable=learning)
    learner = Learner(new_gpt(small_shape(2), seed=0), recipe)
    losses, separate = gradients(learner, together=False)
    losses_together, together = gradients(learner, together=True)
    assert losses_together == losses and together.keys() == separate.keys() and separate
    for name, gradient in separate.items():
        assert torch.equal(together[name], gradient), name
        assert together[name].dtype == torch.float32


def test_two_launches_cast_what_took_one_for_each():
    layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))
    x = torch.randn(2, 8)
    counts = []
    for together in (False, True):
        with (
            mock.patch.object(casting, "launches_matter", lambda _, fused=together: fused),
            torch.autocast("cpu", dtype=torch.bfloat16),
            OperationCounter() as counter,
            cast_together(layers),
        ):
            sum(layer(x).float().sum() for layer in layers).backward()
        counts.append(counter.names)
    # Weights and biases, in both directions; the remaining casts are those of inputs.
    assert counts[0]["_to_copy"] - counts[1]["_to_copy"] == 16
    assert counts[1]["_foreach_copy_"] == 2


def test_the_weights_are_back_whatever_happens():
    layer = nn.Linear(3, 3)
    weight = layer.weight
    with (
        mock.patch.object(casting, "launches_matter", lambda _: True),
        torch.autocast("cpu", dtype=torch.bfloat16),
        pytest.raises(ZeroDivisionError),
        cast_together([layer, nn.LayerNorm(3)]),
    ):
        assert layer.weight.dtype == torch.bfloat16
        raise ZeroDivisionError
    assert layer.weight is weight and dict(layer.named_parameters())["weight"] is weight


def test_without_autocast_and_on_a_cpu_nothing_is_copied():
    layer = nn.Linear(3, 3)
    weight = layer.weight
    with cast_together([layer]), torch.autocast("cpu", dtype=torch.bfloat16):
        assert layer.weight is weight
    with torch.autocast("cpu", dtype=torch.bfloat16), cast_together([layer]):
        assert layer.weight is weight
    with mock.patch.object(casting, "launches_matter", lambda _: True), cast_together([layer]):
        assert layer.weight is weight
