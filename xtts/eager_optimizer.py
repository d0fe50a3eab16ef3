"""Optimizers of torch without torch's compiler.

An optimizer imports the whole compiler (torch._dynamo: 1.2 s, 117 MB) when it is made, only to keep
the compiler away from its own code. Where no optimizer is compiled there is nothing to keep away.
COMPILE compiles parts of the model, never the optimizer, so it is free to import the compiler.
"""

import inspect
from typing import TypeVar

import torch
from torch.optim import Optimizer

T = TypeVar("T", bound=Optimizer)

# What torch 2.11 decorates in `Optimizer`, beside `step`.
_GUARDED = ("add_param_group", "load_state_dict", "state_dict", "zero_grad")


def eager(kind: type[T]) -> type[T]:
    """`kind` with the same arguments, state and steps, bit for bit, that imports no compiler."""
    plain = {name: inspect.unwrap(getattr(kind, name)) for name in _GUARDED}
    step = torch.no_grad()(inspect.unwrap(kind.step))
    return type(kind.__name__, (kind,), {**plain, "step": step})
