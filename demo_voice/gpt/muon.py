"""Muon in float32, for processors without bf16 products: there torch's own, which orthogonalises in
bf16, takes 45 times as long."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


class Float32Muon(torch.optim.Muon):
    """`torch.optim.Muon` with "match_rms_adamw", state and steps, up to rounding."""

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """One step; `closure` is not called: the losses of this training need none."""
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._move(weight, weight.grad, group)

    def _move(self, weight: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        state, momentum = self.state[weight], group["momentum"]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(gradient)
        mean = state["momentum_buffer"].lerp_(gradient, 1 - momentum)
        ahead = gradient.lerp(mean, momentum)  # Nesterov's
        update = orthogonal(ahead, group["ns_coefficients"], group["ns_steps"], group["eps"])
        weight.mul_(1 - group["lr"] * group["weight_decay"])
        # A matrix of singular values near 1 has this share of AdamW's usual step.
        weight.add_(update, alpha=-group["lr"] * 0.2 * max(weight.shape) ** 0.5)


def orthogonal(
    matrix: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float
) -> Tensor:
    """The matrix with all singular values near 1, by Newton and Schulz's iteration with a quintic
    (https://kellerjordan.github.io/posts/muon), in the matrix's own precision."""
    first, third, fifth = coefficients
    wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    wide = wide / wide.norm().clamp(min=eps)
    for _ in range(steps):
        gram = wide @ wide.T
        wide = torch.addmm(
            wide, torch.addmm(gram, gram, gram, beta=third, alpha=fifth), wide, beta=first
        )
    return wide if matrix.shape[0] <= matrix.shape[1] else wide.T
