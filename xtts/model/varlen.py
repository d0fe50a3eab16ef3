"""Variable-length attention over clips packed into one row without padding.

Chosen over kernels for variable length because it needs none: on a CPU a clip attends by itself,
in the row's own memory; elsewhere one kernel attends in a padded grid, which exists for the
attention alone (some 4 % of the products of a step of XTTS-v2). Both give the numbers of clips that
stand in padded rows.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

# In bf16 a CPU's flash kernel takes its time backwards: for 220 positions of 16 heads 8.0 ms of one
# core in both directions, against 5.3 ms with the products written out. What those keep in memory
# grows with the square: 16 heads of 1,024 positions keep 34 MB a layer.
LONGEST_WRITTEN_OUT = 1024
# Of a layout: what goes to the device with it.
TENSORS = ("number", "slots", "sources")


@dataclass(frozen=True)
class VarlenLayout:
    """Where each clip lies in a row `[1, heads, sum(lengths), head_width]`.

    number [sum(lengths)]: which clip a position belongs to. slots [sum(lengths)]: its place in a
    padded grid `[len(lengths) * max(lengths)]`. sources [len(lengths) * max(lengths)]: the position
    that is in each place of that grid, and 0 where it is padding.
    """

    lengths: tuple[int, ...]
    number: Tensor
    slots: Tensor
    sources: Tensor

    @staticmethod
    def of(lengths: Sequence[int]) -> "VarlenLayout":
        """Clips of so many positions each."""
        longest, counts = max(lengths), torch.tensor(list(lengths))
        number = torch.repeat_interleave(torch.arange(len(lengths)), counts)
        before = F.pad(counts.cumsum(0)[:-1], (1, 0))
        slots = torch.arange(len(number)) + (number * longest - before[number])
        sources = torch.zeros(len(counts) * longest, dtype=torch.long)
        sources[slots] = torch.arange(len(number))
        return VarlenLayout(tuple(lengths), number, slots, sources)

    def moved(self, move: Callable[[Tensor], Tensor]) -> "VarlenLayout":
        """The same with each tensor moved."""
        changes: dict[str, Any] = {name: move(getattr(self, name)) for name in TENSORS}
        return replace(self, **changes)

    # What `xtts.model.transformer` asks of a cache.

    def attend(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Each position sees itself and what is before it in its own clip; a clip after the other,
        each over its own length."""
        parts = zip(*(part.split(self.lengths, 2) for part in (queries, keys, values)), strict=True)
        return torch.cat([causal_attention(*part) for part in parts], 2)

    def advance(self, time: int) -> None:
        """Nothing is remembered."""

    # The other way, equal in what it says.

    def in_one_grid(self, packed: Tensor, heads: int) -> Tensor:
        """All clips in one kernel, right-padded: what is causal never looks at its padding. From
        queries, keys and values beside each other: `[1, sum, 3 * width]` -> `[1, sum, width]`. One
        copy into the grid instead of six operations, and one out of it."""
        queries, keys, values = self.parted(packed.view(packed.shape[1], 3, heads, -1))
        mixed = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        return self.out_of_grid(mixed).unsqueeze(0)

    def out_of_grid(self, mixed: Tensor) -> Tensor:
        """[clips, heads, longest, head_width] -> [sum, heads * head_width]."""
        rows = mixed.transpose(1, 2).flatten(2).flatten(0, 1)
        packed: Tensor = _OutOfGrid.apply(rows, self.slots)
        return packed

    def parted(self, packed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """[sum, 3, heads, head_width] -> queries, keys and values in a grid, each
        [clips, heads, longest, head_width].

        Its padding is a copy of the first position: whoever attends is not to look at it, by a mask
        or because it is causal, and what it looks at is to be thrown away. So its gradient is
        nothing, and is not summed.
        """
        parts: tuple[Tensor, Tensor, Tensor] = _IntoGrid.apply(
            packed, self.sources, self.slots, len(self.lengths)
        )
        return parts

    def padded(self, part: Tensor) -> Tensor:
        """[1, heads, sum, head_width] -> [clips, heads, longest, head_width], zeros behind."""
        _, heads, _, width = part.shape
        grid = part.new_zeros(len(self.lengths) * max(self.lengths), heads, width)
        grid = grid.index_copy(0, self.slots, part[0].transpose(0, 1))
        return grid.view(len(self.lengths), -1, heads, width).transpose(1, 2)

    def mask(self, like: Tensor, before: int = 0) -> Tensor:
        """What is added to the scores of a padded grid whose keys are `like`, `[clips, 1, 1, before
        + longest]`: 0 for what is there and for `before` keys in front of it, else -inf. Attention
        would make the same of a bool, three operations each time."""
        if (key := (like.dtype, before)) not in self._masks:
            places = len(self.lengths) * max(self.lengths)
            present = torch.zeros(places, dtype=torch.bool, device=self.slots.device)
            present = present.index_fill(0, self.slots, True).view(len(self.lengths), 1, 1, -1)
            seen = F.pad(present, (before, 0), value=True)
            zeros = torch.zeros_like(seen, dtype=like.dtype)
            self._masks[key] = zeros.masked_fill_(~seen, -torch.inf)
        return self._masks[key]

    @functools.cached_property
    def _masks(self) -> dict[tuple[torch.dtype, int], Tensor]:
        return {}


class _IntoGrid(torch.autograd.Function):
    """`VarlenLayout.parted`: one copy there, and two back, where autograd would sum with atomics
    over a padding that has no gradient."""

    @staticmethod
    def forward(
        ctx: Any, packed: Tensor, sources: Tensor, slots: Tensor, clips: int
    ) -> tuple[Tensor, ...]:
        ctx.save_for_backward(slots)
        grid = packed.index_select(0, sources)
        return grid.view(clips, -1, *packed.shape[1:]).permute(2, 0, 3, 1, 4).unbind()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        (slots,) = ctx.saved_tensors
        grid = torch.stack([one.transpose(1, 2) for one in gradients], 2)
        return grid.flatten(0, 1).index_select(0, slots), None, None, None


class _OutOfGrid(torch.autograd.Function):
    """Rows `[clips * longest, width]` of a grid -> `[sum, width]`. No row is taken twice, so that
    its gradient is copied and not summed."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, slots: Tensor) -> Tensor:
        ctx.save_for_backward(slots)
        ctx.places = len(rows)
        return rows.index_select(0, slots)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (slots,) = ctx.saved_tensors
        grid = gradient.new_zeros(ctx.places, gradient.shape[1])
        return grid.index_copy_(0, slots, gradient), None


def attends_per_clip(like: Tensor) -> bool:
    """On a CPU each clip attends by itself; where a kernel has to be started, all of them do."""
    return like.device.type == "cpu"


def causal_attention(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Causal attention of one clip, [1, heads, time, head_width]."""
    time = queries.shape[2]
    if queries.dtype == torch.float32 or time > LONGEST_WRITTEN_OUT:
        return F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
    return attention(queries, keys, values, _later(queries.dtype)[:time, :time])


@functools.lru_cache(maxsize=2)
def _later(dtype: torch.dtype) -> Tensor:
    """What may not be seen yet, for the longest clip: made once, every layer takes its corner."""
    with torch.inference_mode(False):
        return torch.full((LONGEST_WRITTEN_OUT,) * 2, -torch.inf, dtype=dtype).triu(1)


def attention(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None) -> Tensor:
    """Attention of one clip with its products written out; `mask` [time, time] is added."""
    spread = queries.shape[-1] ** -0.5
    (queries,), (keys,), (values,) = queries, keys, values
    if mask is None:
        scores = (queries * spread) @ keys.transpose(1, 2)
    else:
        mask = mask.expand(len(queries), -1, -1)
        scores = torch.baddbmm(mask, queries, keys.transpose(1, 2), alpha=spread)
    return (scores.softmax(-1) @ values)[None]
