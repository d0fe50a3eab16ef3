"""OPTIMIZER: parameter groups, gradient clipping, kept state, the learning rate, skipped steps.

Separate clipping needs a pass over all gradients (3.6 GB read and written at XTTS-v2's size). The
kernel of fused AdamW can divide the gradients by a number, so clipping is done there. With
`found_inf` = 1 it leaves the weights unchanged, so that the host never waits for a GPU.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor, nn

from machine import extras
from machine.errors import SotaqueError
from train import defaults
from train.optim.trainable import StateDict, TrainableParts
from xtts.eager_optimizer import eager
from xtts.model.gpt import GPT

# AdamW as in Coqui's recipe (recipes/ljspeech/xtts_v2/train_gpt_xtts.py).
ADAM_BETAS = (0.9, 0.96)
ADAM_EPSILON = 1e-8
# Until this step the rate is constant after the warm-up, then it falls with 1/sqrt(step).
HOLD_STEPS = 1000
# The bytes of both averages for each weight, by OPTIMIZER.
STATE_BYTES = {"adamw": 8.0, "adamw8bit": 2.04}
MAX_NON_FINITE_IN_A_ROW = 3
# With a scale below 1, gradients overflow fp16 even unscaled, and that only gets worse.
MAX_LOW_SCALE_IN_A_ROW = 10


@dataclass(frozen=True)
class OptimizationConfig:
    """The optimization settings of one run.

    Attributes:
        learning_rate: The peak rate.
        gradient_clip: The maximum norm.
        trainable: Which weights train.
    """

    learning_rate: float
    precision: str
    seed: int
    warmup_steps: int = defaults.WARMUP_STEPS
    weight_decay: float = defaults.WEIGHT_DECAY
    gradient_clip: float = defaults.GRADIENT_CLIP
    optimizer: str = "adamw"
    trainable: TrainableParts = field(default_factory=TrainableParts)


def new_optimizer(name: str, groups: list[dict[str, object]], learning_rate: float) -> torch.optim.Optimizer:
    """The optimizer named OPTIMIZER for `weight_groups`, at its first learning rate. Raises
    SotaqueError if its extra was deleted."""
    kind: Callable[..., torch.optim.Optimizer] = partial(eager(torch.optim.AdamW), fused=True)
    if name == "adamw8bit":
        offered = extras.first("OPTIMIZER")
        if offered is None:
            raise SotaqueError(
                "OPTIMIZER=adamw8bit needs extras/eight_bit, which this copy of Sotaque lacks. Set "
                "OPTIMIZER=adamw."
            )
        kind = offered.AdamW8bit
    return kind(groups, lr=learning_rate, betas=ADAM_BETAS, eps=ADAM_EPSILON)


def weight_groups(gpt: GPT, weight_decay: float, undecayed: Sequence[Tensor] = ()) -> list[dict[str, object]]:
    """The parameter groups: weight decay on matrices, none on biases, norms and embeddings, as in
    Coqui's recipe, nor on `undecayed`. Frozen weights are in no group.
    """
    undecayed_ids = {id(parameter) for parameter in undecayed} | {
        id(parameter)
        for module in gpt.modules()
        if isinstance(module, nn.Embedding | nn.LayerNorm | nn.GroupNorm)
        for parameter in module.parameters()
    }
    decayed: list[nn.Parameter] = []
    not_decayed: list[nn.Parameter] = []
    for name, parameter in gpt.named_parameters():
        if not parameter.requires_grad:
            continue
        is_decayed = parameter.dim() > 1 and id(parameter) not in undecayed_ids and "latents" not in name
        (decayed if is_decayed else not_decayed).append(parameter)
    groups: list[dict[str, object]] = [
        {"params": decayed, "weight_decay": weight_decay},
        {"params": not_decayed, "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def fuses_clipping(optimizer: torch.optim.Optimizer) -> bool:
    """Whether its kernel can divide the gradients by a number and skip the update."""
    return isinstance(optimizer, torch.optim.AdamW) and bool(optimizer.defaults["fused"])


def clip_gradients(
    optimizer: torch.optim.Optimizer,
    weights: Sequence[Tensor],
    norm: Tensor,
    max_norm: float,
    *,
    in_kernel: bool = True,
) -> None:
    """Scales the gradients to a norm of at most `max_norm`; with `in_kernel`, in the next step's
    kernel if it can."""
    if in_kernel and fuses_clipping(optimizer):
        optimizer.grad_scale = ((norm + 1e-6) / max_norm).clamp(min=1.0).float()  # type: ignore[attr-defined]
        return
    gradients = (weight for weight in weights if weight.grad is not None)
    nn.utils.clip_grads_with_norm_(gradients, max_norm, norm)


def step_unless(optimizer: torch.optim.Optimizer, non_finite: Tensor) -> None:
    """A step that changes nothing if `non_finite` is 1; the device decides (`fuses_clipping`)."""
    optimizer.found_inf = non_finite.float()  # type: ignore[attr-defined]
    try:
        optimizer.step()
    finally:
        del optimizer.found_inf  # type: ignore[attr-defined]


def load_state(optimizer: torch.optim.Optimizer, state: StateDict) -> None:
    """Restores a saved state. Raises SotaqueError for a state of another OPTIMIZER."""
    name = "adamw" if isinstance(optimizer, torch.optim.AdamW) else "adamw8bit"
    saved = "adamw8bit" if "adamw8bit" in state else "adamw"
    if saved != name:
        raise SotaqueError(
            f"The saved state is of OPTIMIZER={saved}, and this run has OPTIMIZER={name}. "
            "Set it back to continue, or RESUME=never to start over."
        )
    if name == "adamw":  # a state saved without the fused kernel continues with it
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


# Steps that are skipped because they are not finite


class NonFiniteError(SotaqueError):
    """Losses, gradients or weights that are not finite; they are not saved."""

    exit_code = 65


@dataclass
class NonFiniteTally:
    """Counts non-finite steps, in a row and in total, and steps in a row at a scale below 1."""

    non_finite_in_a_row: int = 0
    num_non_finite: int = 0
    low_scale_in_a_row: int = 0

    def after_step(
        self, finite: bool, scaler: torch.amp.grad_scaler.GradScaler, step: int, learning_rate: float
    ) -> None:
        """Updates the scale of fp16, and counts the step. Raises NonFiniteError at the third
        non-finite step in a row, and in fp16 when the scale stays below 1."""
        # In fp16 the scaler finds its scale by overflowing; the data is not at fault.
        is_searching = scaler.is_enabled() and scaler.get_scale() > 1.0
        scaler.update()
        self.count(finite, is_searching, step, learning_rate)
        if scaler.is_enabled():
            self.judge_scale(scaler.get_scale(), step)

    def count(self, finite: bool, is_searching: bool, step: int, learning_rate: float) -> None:
        """Counts one step. Raises NonFiniteError at the third non-finite step in a row.

        Args:
            is_searching: whether fp16's scaler is still finding its scale by overflowing.
        """
        if finite or is_searching:
            self.non_finite_in_a_row = 0
            return
        self.non_finite_in_a_row += 1
        self.num_non_finite += 1
        if self.non_finite_in_a_row >= MAX_NON_FINITE_IN_A_ROW:
            raise NonFiniteError(
                f"The loss was not finite in {self.non_finite_in_a_row} steps in a row, up to step "
                f"{step}. They changed no weights. Lower LEARNING_RATE (it is "
                f"{learning_rate:g}), or set PRECISION=fp32. The log names the clips."
            )

    def judge_scale(self, scale: float, step: int) -> None:
        """Checks the scale of fp16 after a step. Raises NonFiniteError when it stays below 1."""
        self.low_scale_in_a_row = self.low_scale_in_a_row + 1 if scale < 1.0 else 0
        if self.low_scale_in_a_row >= MAX_LOW_SCALE_IN_A_ROW:
            raise NonFiniteError(
                f"The gradient scale of PRECISION=fp16 was below 1 in {self.low_scale_in_a_row} "
                f"steps in a row (it is {scale:g}), up to step {step}: the "
                "gradients are too large for fp16. Set PRECISION=bf16 or fp32, and resume from the "
                "last epoch."
            )
