"""Autocast's copies of weights, for many layers with one kernel.

Autocast copies each weight and bias of a layer to 16 bits, and each gradient back, with a separate
kernel: sixteen kernels per transformer block, most of them shorter than their launch. Here one
kernel makes all copies of a block and one converts its gradients. The results are identical.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


@contextmanager
def cast_together(modules: Iterable[nn.Module]) -> Iterator[None]:
    """A context in which the linear layers and convolutions among `modules` have weights in
    autocast's type, copied by one kernel. Does nothing without autocast or on a CPU. Not
    thread-safe."""
    held = [
        (module._parameters, name, weight)
        for module in modules
        if isinstance(module, nn.Linear | nn.Conv1d)
        for name, weight in module._parameters.items()
        if weight is not None and weight.dtype == torch.float32
    ]
    device = held[0][2].device.type if held else ""
    # Only if autocast would make copies, and if launches take time.
    if not held or not counts_launches(held[0][2]) or not torch.is_autocast_enabled(device):
        yield
        return
    kind = torch.get_autocast_dtype(device)
    copies = _Cast.apply(kind, *(weight for _, _, weight in held))
    try:
        for (parameters, name, _), copy in zip(held, copies, strict=True):
            parameters[name] = copy
        yield
    finally:
        for parameters, name, weight in held:
            parameters[name] = weight


def counts_launches(like: Tensor) -> bool:
    """Whether the number of kernel launches matters; on a CPU it does not."""
    return like.device.type != "cpu"


class _Cast(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, kind: torch.dtype, *weights: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        return _copied(weights, kind)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        present = [one for one in gradients if one is not None]
        widened = iter(_copied(present, torch.float32) if present else ())
        return None, *(None if one is None else next(widened) for one in gradients)


def _copied(tensors: Iterable[Tensor], kind: torch.dtype) -> tuple[Tensor, ...]:
    tensors = list(tensors)
    copies = [torch.empty_like(one, dtype=kind) for one in tensors]
    torch._foreach_copy_(copies, tensors)
    return tuple(copies)
