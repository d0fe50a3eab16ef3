"""Casts the weights of several layers with one kernel, instead of autocast's kernel for each.

Autocast copies each weight and bias of a layer to 16 bits, and each gradient back, with a separate
kernel: sixteen kernels per transformer block, most of them shorter than their launch. Here one
kernel makes all copies of a block and one converts its gradients. The results are identical.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable


class Context(FunctionCtx):
    """What the forward of an operation stores for its backward."""

    saved_tensors: tuple[Tensor, ...]
    grid_size: int


def launches_matter(like: Tensor) -> bool:
    """Whether the number of kernels matters; on a CPU, starting one costs next to nothing."""
    return like.device.type != "cpu"


@contextmanager
def cast_together(modules: Iterable[nn.Module]) -> Iterator[None]:
    """A context in which the linear layers and convolutions among `modules` have weights in
    autocast's type, copied by one kernel. Does nothing without autocast or on a CPU. Not
    thread-safe."""
    originals = [
        (module._parameters, name, weight)
        for module in modules
        if isinstance(module, nn.Linear | nn.Conv1d)
        for name, weight in module._parameters.items()
        if weight is not None and weight.dtype == torch.float32
    ]
    device = originals[0][2].device.type if originals else ""
    # Only if autocast would make copies, and if launches take time.
    if not originals or not launches_matter(originals[0][2]) or not torch.is_autocast_enabled(device):
        yield
        return
    dtype = torch.get_autocast_dtype(device)
    copies = _Cast.apply(dtype, *(weight for _, _, weight in originals))
    try:
        for (parameters, name, _), copy in zip(originals, copies, strict=True):
            parameters[name] = copy
        yield
    finally:
        for parameters, name, weight in originals:
            parameters[name] = weight


class _Cast(torch.autograd.Function):
    """Copies of tensors in another type; their gradients are converted to float32."""

    @staticmethod
    def forward(ctx: Context, dtype: torch.dtype, *weights: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        return _copy(weights, dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        present = [gradient for gradient in gradients if gradient is not None]
        widened = iter(_copy(present, torch.float32) if present else ())
        return None, *(None if gradient is None else next(widened) for gradient in gradients)


def _copy(tensors: Iterable[Tensor], dtype: torch.dtype) -> tuple[Tensor, ...]:
    tensors = list(tensors)
    copies = [torch.empty_like(tensor, dtype=dtype) for tensor in tensors]
    torch._foreach_copy_(copies, tensors)
    return tuple(copies)
