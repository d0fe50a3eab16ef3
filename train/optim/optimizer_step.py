"""Gradient clipping and the optimizer step, skipped on the device when non-finite.

Clipping costs a pass over all gradients of its own (3.6 GB read and written at XTTS-v2's size).
Fused AdamW divides by a number in its kernel anyway, so the clipping goes in there; and it leaves
the weights alone where `found_inf` is 1, so that on a GPU nobody has to ask the device.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch._inductor import config as inductor

from xtts.model.gpt import GPT


@dataclass(frozen=True)
class DeferredStepResult:
    """A step whose numbers are still on the device: text loss, audio loss, loss, gradient norm."""

    numbers: Tensor
    learning_rate: float


def gradient_norm(weights: Sequence[Tensor]) -> Tensor:
    """The 2-norm over all gradients, in float32, on their device."""
    return nn.utils.get_total_norm([weight.grad for weight in weights if weight.grad is not None])


def fuses_clipping(optimizer: torch.optim.Optimizer) -> bool:
    """Whether its kernel divides gradients by a number and can be told to leave the weights."""
    return isinstance(optimizer, torch.optim.AdamW) and bool(optimizer.defaults["fused"])


def clip_gradients(
    optimizer: torch.optim.Optimizer, weights: Sequence[Tensor], norm: Tensor, largest: float
) -> None:
    """Gradients are at most `largest` long in the next step; in its kernel where it can."""
    if fuses_clipping(optimizer):
        optimizer.grad_scale = ((norm + 1e-6) / largest).clamp(min=1.0).float()  # type: ignore[attr-defined]
        return
    gradients = (weight for weight in weights if weight.grad is not None)
    nn.utils.clip_grads_with_norm_(gradients, largest, norm)


def step_unless_non_finite(optimizer: torch.optim.Optimizer, no_number: Tensor) -> None:
    """A step that moves nothing where `no_number` is 1: decided on the device, see
    `fuses_clipping`."""
    optimizer.found_inf = no_number.float()  # type: ignore[attr-defined]
    try:
        optimizer.step()
    finally:
        del optimizer.found_inf  # type: ignore[attr-defined]


def compile_blocks(gpt: GPT) -> None:
    """COMPILE: the feed-forward half of each block becomes one program, the same for all of them.

    Attention stays as it is: where a clip begins differs from batch to batch, and each would be
    compiled anew. Dropout draws as without compiling.
    """
    inductor.fallback_random = True
    for block in gpt.gpt.h:
        block.mlp.compile(dynamic=True)  # type: ignore[union-attr]
