"""AdamW's parameter groups, learning rate schedule, gradient clipping, per-step seed.

Clipping costs a pass over all gradients of its own (3.6 GB read and written at XTTS-v2's size).
Fused AdamW divides by a number in its kernel anyway, so the clipping goes in there; and it leaves
the weights alone where `found_inf` is 1, so that on a GPU the host never waits for the device.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from machine.errors import SotaqueError
from xtts.model.gpt import GPT

# AdamW as in Coqui's recipe (recipes/ljspeech/xtts_v2/train_gpt_xtts.py).
ADAM_BETAS = (0.9, 0.96)
ADAM_EPSILON = 1e-8
# XTTS-v2's learning rate there; small models name their own in config.json.
XTTS_LEARNING_RATE = 5e-6
# Behind the warm-up the rate holds for so many steps, then falls with 1/sqrt(step). It depends on
# the step alone, so that a longer NUM_EPOCHS continues a run instead of changing it.
HOLD_STEPS = 1000
# What is left of the rate at a cosine's end: at zero nothing would learn where a run goes on.
COSINE_END = 0.1


class OptimizerError(SotaqueError):
    """An optimizer that this machine has not, or a state that is of another one."""

    exit_code = 2


@dataclass(frozen=True)
class Schedule:
    """The rate over the steps. name: SCHEDULE; total_steps: where a cosine ends."""

    name: str = "inverse_sqrt"
    warmup_steps: int = 0
    total_steps: int = 0

    def share(self, step: int) -> float:
        """The share of the peak rate at `step` (from 0), behind a linear warm-up."""
        warm = min(1.0, (step + 1) / max(1, self.warmup_steps))
        if self.name == "constant":
            return warm
        if self.name == "cosine":
            left = max(1, self.total_steps - self.warmup_steps)
            done = min(1.0, max(0, step - self.warmup_steps) / left)
            return warm * (COSINE_END + (1 - COSINE_END) * (1 + math.cos(math.pi * done)) / 2)
        return schedule(step, self.warmup_steps)


def schedule(step: int, warmup_steps: int) -> float:
    """The share of the peak rate at `step` (from 0): linear warm-up, hold, inverse square root."""
    warm = min(1.0, (step + 1) / max(1, warmup_steps))
    hold = max(HOLD_STEPS, warmup_steps)
    return warm * min(1.0, (hold / (step + 1)) ** 0.5)


def weight_groups(gpt: GPT, weight_decay: float) -> list[dict[str, Any]]:
    """Weight decay on matrices only; not on biases, norms and embeddings, as in Coqui's recipe.

    What is frozen is in no group.
    """
    spared = {
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


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """The rate of the next step."""
    for group in optimizer.param_groups:
        group["lr"] = rate


def gradient_norm(weights: Sequence[Tensor]) -> Tensor:
    """The 2-norm over all gradients, in float32, on their device."""
    return nn.utils.get_total_norm([weight.grad for weight in weights if weight.grad is not None])


def fuses_clipping(optimizer: torch.optim.Optimizer) -> bool:
    """Whether its kernel divides gradients by a number and can skip the weights."""
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
    """A step that moves nothing where `non_finite` is 1: decided on the device, see
    `fuses_clipping`."""
    optimizer.found_inf = non_finite.float()  # type: ignore[attr-defined]
    try:
        optimizer.step()
    finally:
        del optimizer.found_inf  # type: ignore[attr-defined]


def load_state(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Takes up a state that was kept. Raises OptimizerError for one of another OPTIMIZER."""
    if "adamw8bit" in state and isinstance(optimizer, torch.optim.AdamW):
        raise OptimizerError(other_state("adamw8bit", "adamw"))
    optimizer.load_state_dict(state)


def other_state(old: str, new: str) -> str:
    """The sentence for a state that is of another optimizer."""
    return (
        f"The state that was saved is of OPTIMIZER={old}, and this run has OPTIMIZER={new}. Set "
        "it back to go on, or RESUME=never to start over."
    )


def state_bytes(state: Any) -> int:
    """Bytes of the tensors in an optimizer's state."""
    if isinstance(state, Tensor):
        return state.numel() * state.element_size()
    values = state.values() if isinstance(state, Mapping) else state
    return sum(map(state_bytes, values)) if isinstance(state, Mapping | list | tuple) else 0


def mix_seed(seed: int, step: int, rank: int = 0) -> int:
    """One 63-bit number from all, so that neighbouring seeds share no step, and no two ranks."""
    behind = f"/{rank}" if rank else ""
    digest = hashlib.sha256(f"{seed}/{step}{behind}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
