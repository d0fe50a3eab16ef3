"""Modules with uninitialized weights, for filling or inspection.

On the meta device, the first random draw imports 870 modules (sympy and torch's compiler: 2.5 s and
150 MB with torch 2.11). On the CPU, 441 M random numbers would be drawn for nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

# `torch.nn.init.kaiming_normal_`, which Coqui's speaker encoder uses, bypasses the mode and draws
# with these.
_DRAWING = frozenset({Tensor.normal_, Tensor.uniform_})


@contextmanager
def without_weights() -> Iterator[None]:
    """A context in which new modules get shapes, but uninitialized values."""
    with torch.device("meta"), _NothingDrawn():
        yield


class _NothingDrawn(TorchFunctionMode):
    """Makes all `torch.nn.init` functions and draws return their tensor unchanged."""

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        kwargs = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init" or func in _DRAWING:
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        return func(*args, **kwargs)
