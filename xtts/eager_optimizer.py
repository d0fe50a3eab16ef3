"""torch's optimizers without importing torch's compiler.

Creating an optimizer imports the compiler (torch._dynamo: 1.2 s, 117 MB) only to exclude methods of
the optimizer from compilation. We compile nothing.
"""

import inspect
from typing import TypeVar

import torch
from torch.optim import Optimizer

T = TypeVar("T", bound=Optimizer)

# The methods that torch 2.11 decorates in `Optimizer`, in addition to `step`.
_DECORATED_METHODS = ("add_param_group", "load_state_dict", "state_dict", "zero_grad")


def eager(kind: type[T]) -> type[T]:
    """A class like `kind`, with identical arguments, state and steps, that does not import the
    compiler."""
    methods = {name: inspect.unwrap(getattr(kind, name)) for name in _DECORATED_METHODS}
    methods["step"] = torch.no_grad()(inspect.unwrap(kind.step))
    return type(kind.__name__, (kind,), methods)
