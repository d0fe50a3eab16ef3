"""Modules with uninitialized weights, for filling or inspection.

Initialising on the meta device would do, but its first random draw imports 870 modules (sympy and
torch's compiler: 2.5 s and 150 MB, torch 2.11), and on the CPU it would draw 441 M numbers in vain.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

# `torch.nn.init.kaiming_normal_`, for Coqui's speaker encoder, asks no mode and draws with these.
_DRAWING = frozenset({Tensor.normal_, Tensor.uniform_})


@contextmanager
def without_weights() -> Iterator[None]:
    """Modules that are built inside have shapes and no values."""
    with torch.device("meta"), _NothingDrawn():
        yield


class _NothingDrawn(TorchFunctionMode):
    """Every `torch.nn.init` function, and every draw, gives back its tensor as it is."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init" or func in _DRAWING:
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        return func(*args, **kwargs)
