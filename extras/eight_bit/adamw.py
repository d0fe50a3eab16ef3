"""AdamW with 8-bit states.

Dettmers et al. 2022 (https://arxiv.org/abs/2110.02861): each block of 256 values has a scale, and
each value is one of 256 levels. Small tensors (under 4,096 values) stay in float32, and so do
weights and arithmetic. At XTTS-v2's size this saves 2.6 GB. The results equal those of torchao's
AdamW8bit, and so do the states in checkpoints.

A large tensor takes about 30 kernels a step; all small ones together take as many. A value's level
comes from one search among the thresholds between levels.
"""

import functools
from collections import defaultdict
from typing import Any, TypedDict

import torch
from torch import Tensor
from torch.optim.optimizer import StateDict

BLOCK_SIZE = 256
MIN_QUANTISED_VALUES = 4096
_NUM_DECADES = 7
_AVERAGES = ("exp_avg", "exp_avg_sq")
ParamGroup = dict[str, Any]  # torch's own type


class Quantised(TypedDict):
    """A quantised average. codes: of the weight's shape, uint8; scale: float32, a value for each block."""

    codes: Tensor
    scale: Tensor
    signed: bool


class AdamW8bit(torch.optim.Optimizer):
    """AdamW whose averages take one byte per value, in blocks; `param_groups` are AdamW's."""

    def __init__(self, groups: list[ParamGroup], lr: float, betas: tuple[float, float], eps: float) -> None:
        super().__init__(groups, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": 0.0})
        for weight in self._weights():
            first, second = _zeros(weight, signed=True), _zeros(weight, signed=False)
            self.state[weight] = {"step": 0, "exp_avg": first, "exp_avg_sq": second}

    @torch.no_grad()
    def step(self, closure: object = None) -> None:  # type: ignore[override]
        """One step of the weights that have a gradient, at the groups' learning rates."""
        del closure
        for group in self.param_groups:
            # By the number of their steps, which the arithmetic depends on.
            small_weights = defaultdict[int, list[Tensor]](list)
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                state = self.state[weight]
                state["step"] += 1
                if isinstance(state["exp_avg"], Tensor):
                    small_weights[state["step"]].append(weight)
                    continue
                averages = [_dequantise(state[name]) for name in _AVERAGES]
                _update(group, state["step"], weight, weight.grad, *averages)
                for name, average in zip(_AVERAGES, averages, strict=True):
                    _quantise_into(state[name], average)
            for steps, weights in small_weights.items():
                self._update_together(group, steps, weights)

    def _update_together(self, group: ParamGroup, steps: int, weights: list[Tensor]) -> None:
        """Updates small weights with the same number of steps as one tensor."""
        tensors = [weights, *([self.state[weight][name] for weight in weights] for name in _AVERAGES)]
        joined = [torch.cat([tensor.flatten() for tensor in parts]) for parts in tensors]
        gradient = torch.cat([weight.grad.flatten() for weight in weights if weight.grad is not None])
        _update(group, steps, joined[0], gradient, *joined[1:])
        sizes = [weight.numel() for weight in weights]
        for parts, values in zip(tensors, joined, strict=True):
            torch._foreach_copy_([tensor.view(-1) for tensor in parts], values.split(sizes))

    def state_dict(self) -> StateDict:
        """The state as plain tensors and values, in the order of the weights; empty for a weight
        before its first step."""
        states = [self.state[weight] for weight in self._weights()]
        saved = [{**state, "step": torch.tensor(float(state["step"]))} for state in states]
        return {"adamw8bit": [state if state["step"] else {} for state in saved]}

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Restores what `state_dict` returned."""
        for weight, saved in zip(self._weights(), state_dict["adamw8bit"], strict=True):
            if saved:
                state = self.state[weight]
                state["step"] = int(saved["step"])
                for name in _AVERAGES:
                    _restore(state[name], saved[name])

    def _weights(self) -> list[Tensor]:
        return [weight for group in self.param_groups for weight in group["params"]]


def _update(
    group: ParamGroup, steps: int, weights: Tensor, gradients: Tensor, first: Tensor, second: Tensor
) -> None:
    """Applies AdamW in place, to the weights and to both averages."""
    beta1, beta2 = group["betas"]
    # float32 numbers on the host, computed as torchao does.
    rate, step = (torch.tensor(float(value)) for value in (group["lr"], steps))
    if decay := group["weight_decay"]:
        weights.sub_(weights * (rate * decay))
    gradients = gradients.float()
    first.lerp_(gradients, 1 - beta1)
    second.lerp_(gradients.square(), 1 - beta2)
    divisor = second.sqrt().div_((1 - beta2**step).sqrt()).add_(group["eps"])
    weights.sub_(first.div(1 - beta1**step).mul_(rate).div_(divisor))


def _zeros(weight: Tensor, *, signed: bool) -> "Tensor | Quantised":
    """A new average: in float32 if the weight is small or not a number of whole blocks."""
    count = weight.numel()
    if count < MIN_QUANTISED_VALUES or count % BLOCK_SIZE:
        return torch.zeros_like(weight, dtype=torch.float32, requires_grad=False)
    codes = torch.zeros_like(weight, dtype=torch.uint8, requires_grad=False)
    return {"codes": codes, "scale": weight.new_zeros(count // BLOCK_SIZE).float(), "signed": signed}


def _dequantise(average: Quantised) -> Tensor:
    """A copy in float32."""
    codes = average["codes"]
    values = _levels(average["signed"], codes.device).index_select(0, codes.view(-1).int())
    values.view(-1, BLOCK_SIZE).mul_(average["scale"][:, None])
    return values.view(codes.shape)


def _quantise_into(average: Quantised, values: Tensor) -> None:
    blocks, scale = values.view(-1, BLOCK_SIZE), average["scale"]
    torch.linalg.vector_norm(blocks, torch.inf, 1, out=scale).clamp_(min=1e-12)
    thresholds = _thresholds(average["signed"], scale.device)
    codes = torch.bucketize(blocks / scale[:, None], thresholds, out_int32=True, right=True)
    average["codes"].view(-1, BLOCK_SIZE).copy_(codes)


def _restore(average: "Tensor | Quantised", saved: Any) -> None:
    """Copies a saved average into `average`."""
    if isinstance(average, Tensor):
        average.copy_(saved)
    else:
        average["codes"].copy_(saved["codes"])
        average["scale"].copy_(saved["scale"])


@functools.lru_cache(maxsize=4)
def _levels(signed: bool, device: torch.device) -> Tensor:
    """The 256 levels, between -1 or 0 and 1, of the dynamic tree data type (Dettmers 2016,
    https://arxiv.org/abs/1511.04561): seven decades, each with twice the levels of the one
    below."""
    parts = [torch.tensor([0.0, 1.0])]
    for decade in range(_NUM_DECADES):
        edges = torch.linspace(0.1, 1.0, 2 ** (decade + (not signed)) + 1)
        middles = (edges[:-1] + edges[1:]) / 2 * 10 ** (decade + 1 - _NUM_DECADES)
        parts += [middles, -middles] if signed else [middles]
    return torch.cat(parts).sort().values.to(device)


@functools.lru_cache(maxsize=4)
def _thresholds(signed: bool, device: torch.device) -> Tensor:
    """For each level, the smallest float32 number that is rounded to the next level: its distance from
    the level is at least half of the distance between the two, in float32 arithmetic."""
    levels = _levels(signed, torch.device("cpu"))
    below, above = levels[:-1], levels[1:]
    half = (above - below) * 0.5
    threshold = torch.nextafter(below + half, above)
    for _ in range(2):  # rounding moves it by a neighbour at most
        lower = torch.nextafter(threshold, below)
        threshold = torch.where(lower - below >= half, lower, threshold)
    return threshold.to(device)
