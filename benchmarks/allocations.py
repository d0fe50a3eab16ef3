"""What a step allocates, counted where tensors are made: for machines without a GPU.

Every operation's results are seen, each storage once, from its making to its last reference. What a
kernel takes and gives back inside is not seen, nor what an allocator loses between blocks.
"""

import weakref
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Allocations(TorchDispatchMode):
    """`with` counts; `live_bytes` now, `peak_bytes` so far."""

    def __init__(self) -> None:
        super().__init__()
        self.live_bytes = 0
        self.peak_bytes = 0
        self._seen: dict[int, weakref.ref[Any]] = {}

    def hold(self, tensors: Iterable[Tensor]) -> None:
        """Counts what was there before: the weights."""
        for tensor in tensors:
            self._see(tensor)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        found = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(found):
            if isinstance(leaf, Tensor):
                self._see(leaf)
        return found

    def _see(self, tensor: Tensor) -> None:
        if type(tensor) not in (Tensor, torch.nn.Parameter):
            return  # a wrapper: what is inside has been made by an operation of its own
        storage = tensor.untyped_storage()
        place = storage._cdata
        if place in self._seen:
            return
        size = storage.nbytes()

        def gone(_: Any) -> None:
            self.live_bytes -= size
            self._seen.pop(place, None)

        self._seen[place] = weakref.ref(storage, gone)
        self.live_bytes += size
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)
