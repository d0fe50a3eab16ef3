"""Counts what a training step would ask of a GPU, without one.

The code for a GPU is forced on a CPU (padded attention, torch's own dropout, a step whose numbers
are read later). Every operation that torch dispatches counts,
except views and empty tensors; so does every wait of the host for the GPU. Dispatched operations
approximate kernels: a fused optimizer counts once and is some twenty launches at full size;
attention counts once and may be three. All layers are alike, so each count is linear in their
number: it is taken at 2 and 4 layers of small width and extrapolated to XTTS-v2's 30.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks import synthetic
from train.step import train_step
from xtts.model import casting
from xtts.model.gpt import Dropout
from xtts.model.shapes import GPTShape

LAYERS = 30
_COUNTED_AT = (2, 4)
# These launch no kernel: they name or allocate memory.
_FREE = ("empty", "detach", "alias", "lift", "_unsafe_view", "_reshape_alias", "set_", "resize_")
# Python's names for operations that ask the device for a value.
_WAITS = frozenset(
    {
        "item",
        "tolist",
        "cpu",
        "numpy",
        "nonzero",
        "__bool__",
        "__int__",
        "__float__",
        "__index__",
        "is_nonzero",
        "unique",
        "masked_select",
    }
)


@dataclass(frozen=True)
class Counts:
    """Operations and host waits of one step, and its most frequent operations."""

    operations: float
    waits: float
    most: dict[str, float]


class OperationCounter(TorchDispatchMode):
    """`with` counts dispatched operations."""

    def __init__(self) -> None:
        super().__init__()
        self.names: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        # Without gradients, linear layers and attention arrive whole; with them, in parts.
        with self:
            if (parts := func.decompose(*args, **(kwargs or {}))) is not NotImplemented:
                return parts
        name = str(func.overloadpacket.__name__)
        if not func.is_view and not name.startswith(_FREE):
            self.names[name] += 1
        return func(*args, **(kwargs or {}))


class WaitCounter(TorchFunctionMode):
    """`with` counts the host's waits for a value from the device."""

    def __init__(self) -> None:
        super().__init__()
        self.names: Counter[str] = Counter()

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        # A device passed as a value may be the tensor's device, so only the name "cpu" counts.
        to_cpu = name == "to" and any(isinstance(arg, str) and arg == "cpu" for arg in args[1:])
        if name in _WAITS or to_cpu:
            self.names[name] += 1
        return func(*args, **(kwargs or {}))


def at_full_depth(counted: Callable[[int], tuple[Counter[str], float]]) -> Counts:
    """Extrapolates from two depths to 30 layers."""
    (few, waits), (more, more_waits) = (counted(layers) for layers in _COUNTED_AT)
    steps = (LAYERS - _COUNTED_AT[0]) / (_COUNTED_AT[1] - _COUNTED_AT[0])
    full = {name: few[name] + steps * (more[name] - few[name]) for name in few | more}
    often = sorted(full.items(), key=lambda one: -one[1])
    return Counts(sum(full.values()), waits + steps * (more_waits - waits), dict(often[:6]))


def small_shape(layers: int) -> GPTShape:
    """XTTS-v2's layout at a small width."""
    return GPTShape(text_ids=300, text_start=261, layers=layers, width=64, heads=4)


@contextmanager
def as_on_a_gpu() -> Iterator[None]:
    """Makes branches that test for a CPU take the GPU's path."""
    with (
        mock.patch.object(Dropout, "forward", _dropped),
        mock.patch.object(casting, "launches_matter", lambda _: True),
    ):
        yield


def _dropped(dropout: torch.nn.Dropout, x: Tensor) -> Tensor:
    """As on a GPU: one kernel forward and one backward. On a CPU torch needs three and one."""
    if not dropout.training or dropout.p == 0:
        return x
    return torch.native_dropout(x, dropout.p, True)[0]


def training_step(layers: int) -> tuple[Counter[str], float]:
    """The second bf16 step on four packed clips of 3 to 7 s; the first creates optimizer states."""
    shape = small_shape(layers)
    sizes = ((30, 65, 260), (45, 90, 300), (60, 120, 350), (70, 150, 400))
    batch = synthetic.noise_batch(shape, sizes, 20.0)
    learner = synthetic.new_learner(shape, "bf16")
    with as_on_a_gpu():
        train_step(learner, batch, deferred=True)
        return counts_of(lambda: train_step(learner, batch, deferred=True))


def counts_of(work: Callable[[], object]) -> tuple[Counter[str], float]:
    """Operations by name, and the waits, of `work`."""
    with WaitCounter() as waits, OperationCounter() as operations:
        work()
    return operations.names, float(sum(waits.names.values()))
