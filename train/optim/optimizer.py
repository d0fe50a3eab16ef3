"""OPTIMIZER: parameter groups, gradient clipping, kept state, the learning rate.

Separate clipping needs a pass over all gradients (3.6 GB read and written at XTTS-v2's size). The
kernel of fused AdamW can divide the gradients by a number, so clipping is done there. With
`found_inf` = 1 it leaves the weights unchanged, so that the host never waits for a GPU.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from machine import extras
from machine.errors import SotaqueError
from xtts.eager_optimizer import eager
from xtts.model.gpt import GPT

# AdamW as in Coqui's recipe (recipes/ljspeech/xtts_v2/train_gpt_xtts.py).
ADAM_BETAS = (0.9, 0.96)
ADAM_EPSILON = 1e-8
# After the warm-up, the rate is constant for this many steps, then falls with 1/sqrt(step).
HOLD_STEPS = 1000
# The bytes of both averages for each weight, by OPTIMIZER.
STATE_BYTES = {"adamw": 8.0, "adamw8bit": 2.04}


def new_optimizer(
    name: str, groups: list[dict[str, Any]], learning_rate: float
) -> torch.optim.Optimizer:
    """The optimizer named OPTIMIZER for `weight_groups`, at its first learning rate. Raises
    SotaqueError if its extra was deleted."""
    kind: Callable[..., torch.optim.Optimizer] = partial(eager(torch.optim.AdamW), fused=True)
    if name == "adamw8bit":
        found = extras.first("OPTIMIZER")
        if found is None:
            raise SotaqueError(
                "OPTIMIZER=adamw8bit needs extras/eight_bit, which this copy of Sotaque lacks. Set "
                "OPTIMIZER=adamw."
            )
        kind = found.AdamW8bit
    return kind(groups, lr=learning_rate, betas=ADAM_BETAS, eps=ADAM_EPSILON)


def weight_groups(
    gpt: GPT, weight_decay: float, undecayed: Sequence[Tensor] = ()
) -> list[dict[str, Any]]:
    """The parameter groups: weight decay on matrices, none on biases, norms and embeddings, as in
    Coqui's recipe, nor on `undecayed`. Frozen weights are in no group.
    """
    spared = {id(parameter) for parameter in undecayed} | {
        id(parameter)
        for module in gpt.modules()
        if isinstance(module, nn.Embedding | nn.LayerNorm | nn.GroupNorm)
        for parameter in module.parameters()
    }
    decayed: list[nn.Parameter] = []
    kept: list[nn.Parameter] = []
    for name, parameter in gpt.named_parameters():
        if not parameter.requires_grad:
            continue
        matrix = parameter.dim() > 1 and id(parameter) not in spared and "latents" not in name
        (decayed if matrix else kept).append(parameter)
    groups = [
        {"params": decayed, "weight_decay": weight_decay},
        {"params": kept, "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def fuses_clipping(optimizer: torch.optim.Optimizer) -> bool:
    """Whether its kernel can divide the gradients by a number and skip the update."""
    return isinstance(optimizer, torch.optim.AdamW) and bool(optimizer.defaults["fused"])


def clip_gradients(
    optimizer: torch.optim.Optimizer, weights: Sequence[Tensor], norm: Tensor, largest: float
) -> None:
    """Scales the gradients to a norm of at most `largest`, in the next step's kernel if it can."""
    if fuses_clipping(optimizer):
        optimizer.grad_scale = ((norm + 1e-6) / largest).clamp(min=1.0).float()  # type: ignore[attr-defined]
        return
    gradients = (weight for weight in weights if weight.grad is not None)
    nn.utils.clip_grads_with_norm_(gradients, largest, norm)


def step_unless(optimizer: torch.optim.Optimizer, non_finite: Tensor) -> None:
    """A step that changes nothing if `non_finite` is 1; the device decides (`fuses_clipping`)."""
    optimizer.found_inf = non_finite.float()  # type: ignore[attr-defined]
    try:
        optimizer.step()
    finally:
        del optimizer.found_inf  # type: ignore[attr-defined]


def load_state(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Restores a saved state. Raises SotaqueError for a state of another OPTIMIZER."""
    own = "adamw" if isinstance(optimizer, torch.optim.AdamW) else "adamw8bit"
    saved = "adamw8bit" if "adamw8bit" in state else "adamw"
    if saved != own:
        raise SotaqueError(
            f"The saved state is of OPTIMIZER={saved}, and this run has OPTIMIZER={own}. "
            "Set it back to continue, or RESUME=never to start over."
        )
    if own == "adamw":  # a state saved without the fused kernel continues with it
        fused = {"fused": optimizer.defaults["fused"]}
        groups = [{**group, **fused} for group in state["param_groups"]]
        state = {**state, "param_groups": groups}
    optimizer.load_state_dict(state)


def rate_factor(step: int, warmup_steps: int) -> float:
    """The factor of the peak rate at `step` (from 0): a linear warm-up, then inverse square root.

    It depends on the step only, never on the number of epochs, so that a longer run continues.
    """
    warm = min(1.0, (step + 1) / max(1, warmup_steps))
    return warm * min(1.0, (max(HOLD_STEPS, warmup_steps) / (step + 1)) ** 0.5)


def tensor_bytes(value: Any) -> int:
    """Bytes of the tensors in nested dictionaries and lists."""
    return sum(leaf.nbytes for leaf in tree_leaves(value) if isinstance(leaf, Tensor))
