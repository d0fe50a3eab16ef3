"""Variable-length attention over clips packed into one row without padding.

Works without a kernel for variable lengths. On a CPU, the clips attend one by one, in the row's
memory. On other devices, one kernel attends in a padded grid, which exists only for the attention
(about 4 % of the multiplications of a training step of XTTS-v2). Both give the results of clips in
padded rows.
"""

import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from xtts.model import casting
from xtts.model.casting import Context
from xtts.model.gpt import AttentionLayout

# The backward pass of a CPU's flash kernel is slow in bf16: 220 positions of 16 heads take 8.0 ms
# of one core in both directions, and 5.3 ms as explicit matrix products. The memory of these grows
# with the square of the length: 16 heads of 1,024 positions take 34 MB per layer.
MAX_EXPLICIT_LENGTH = 1024


@dataclass(frozen=True)
class VarlenLayout(AttentionLayout):
    """Where each clip lies in a row `[1, heads, sum(lengths), head_width]`.

    Attributes:
        clip_of_position: The clip of each position, `[sum(lengths)]`.
        grid_index: The place of each position in a padded grid, `[sum(lengths)]`.
        position_in_grid: The position in each place of that grid, 0 for padding,
            `[len(lengths) * max(lengths)]`.
    """

    lengths: tuple[int, ...]
    clip_of_position: Tensor
    grid_index: Tensor
    position_in_grid: Tensor

    @staticmethod
    def of(lengths: Sequence[int]) -> "VarlenLayout":
        """The layout of clips of these lengths, in positions."""
        longest, counts = max(lengths), torch.tensor(list(lengths))
        clip_of_position = torch.repeat_interleave(torch.arange(len(lengths)), counts)
        positions = torch.arange(len(clip_of_position))
        starts = F.pad(counts.cumsum(0)[:-1], (1, 0))
        grid_index = positions + (clip_of_position * longest - starts[clip_of_position])
        position_in_grid = torch.zeros(len(counts) * longest, dtype=torch.long)
        position_in_grid[grid_index] = positions
        return VarlenLayout(tuple(lengths), clip_of_position, grid_index, position_in_grid)

    def map_tensors(self, move: Callable[[Tensor], Tensor]) -> "VarlenLayout":
        """A copy with `move` applied to each tensor."""
        return replace(
            self,
            clip_of_position=move(self.clip_of_position),
            grid_index=move(self.grid_index),
            position_in_grid=move(self.position_in_grid),
        )

    # The interface for `xtts.model.gpt`.

    def around(self, *parts: nn.Module) -> AbstractContextManager[None]:
        """As in `AttentionLayout`: with gradients, one kernel casts the weights of all parts."""
        parts = parts if torch.is_grad_enabled() else ()
        return casting.cast_together(child for part in parts for child in part.children())

    def attend_packed(self, packed: Tensor, heads: int) -> Tensor | None:
        """As in `AttentionLayout`: all clips in one kernel, with one copy into a padded grid and
        one out of it; causal attention never reads the padding after a clip."""
        if not casting.launches_matter(packed):
            return None
        queries, keys, values = self.into_grid(packed.view(packed.shape[1], 3, heads, -1))
        mixed = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        return self.out_of_grid(mixed).unsqueeze(0)

    def attend(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Causal attention within each clip, clip by clip."""
        parts = zip(*(part.split(self.lengths, 2) for part in (queries, keys, values)), strict=True)
        return torch.cat([causal_attention(*part) for part in parts], 2)

    # The same in a padded grid.

    def out_of_grid(self, mixed: Tensor) -> Tensor:
        """[clips, heads, longest, head_width] -> [sum, heads * head_width]."""
        rows = mixed.transpose(1, 2).flatten(2).flatten(0, 1)
        packed: Tensor = _OutOfGrid.apply(rows, self.grid_index)
        return packed

    def into_grid(self, packed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """[sum, 3, heads, head_width] -> queries, keys and values in a grid, each
        [clips, heads, longest, head_width].

        The padding is a copy of the first position. The caller must mask it, unless attention is
        causal, and must discard its output. So its gradient is not computed.
        """
        parts: tuple[Tensor, Tensor, Tensor] = _IntoGrid.apply(
            packed, self.position_in_grid, self.grid_index, len(self.lengths)
        )
        return parts

    def pad(self, part: Tensor) -> Tensor:
        """[1, heads, sum, head_width] -> [clips, heads, longest, head_width], padded with zeros."""
        _, heads, _, width = part.shape
        grid = part.new_zeros(len(self.lengths) * max(self.lengths), heads, width)
        grid = grid.index_copy(0, self.grid_index, part[0].transpose(0, 1))
        return grid.view(len(self.lengths), -1, heads, width).transpose(1, 2)

    def mask(self, like: Tensor, before: int = 0) -> Tensor:
        """The mask `[clips, 1, 1, before + longest]` to add to the scores of a padded grid with the
        keys `like`: 0 for real positions and for `before` keys before them, else -inf. (Attention
        would convert a boolean mask to this with three operations each time.)"""
        if (key := (like.dtype, before)) not in self._masks:
            grid_size = len(self.lengths) * max(self.lengths)
            is_real = torch.zeros(grid_size, dtype=torch.bool, device=self.grid_index.device)
            is_real = is_real.index_fill(0, self.grid_index, True).view(len(self.lengths), 1, 1, -1)
            is_attended = F.pad(is_real, (before, 0), value=True)
            zeros = torch.zeros_like(is_attended, dtype=like.dtype)
            self._masks[key] = zeros.masked_fill_(~is_attended, -torch.inf)
        return self._masks[key]

    @functools.cached_property
    def _masks(self) -> dict[tuple[torch.dtype, int], Tensor]:
        return {}


class _IntoGrid(torch.autograd.Function):
    """`VarlenLayout.into_grid`: one copy forwards and two backwards. Autograd would add the gradient
    of the padding with atomic sums."""

    @staticmethod
    def forward(
        ctx: Context, packed: Tensor, position_in_grid: Tensor, grid_index: Tensor, clips: int
    ) -> tuple[Tensor, ...]:
        ctx.save_for_backward(grid_index)
        grid = packed.index_select(0, position_in_grid)
        return grid.view(clips, -1, *packed.shape[1:]).permute(2, 0, 3, 1, 4).unbind()

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        (grid_index,) = ctx.saved_tensors
        grid = torch.stack([gradient.transpose(1, 2) for gradient in gradients], 2)
        return grid.flatten(0, 1).index_select(0, grid_index), None, None, None


class _OutOfGrid(torch.autograd.Function):
    """Rows `[clips * longest, width]` of a grid -> `[sum, width]`. No row is used twice, so the
    gradient is a copy, not a sum."""

    @staticmethod
    def forward(ctx: Context, rows: Tensor, grid_index: Tensor) -> Tensor:
        ctx.save_for_backward(grid_index)
        ctx.grid_size = len(rows)
        return rows.index_select(0, grid_index)

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, gradient: Tensor) -> tuple[Tensor, None]:
        (grid_index,) = ctx.saved_tensors
        grid = gradient.new_zeros(ctx.grid_size, gradient.shape[1])
        return grid.index_copy_(0, grid_index, gradient), None


def causal_attention(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Causal attention of one clip, [1, heads, time, head_width]."""
    time = queries.shape[2]
    if queries.dtype == torch.float32 or time > MAX_EXPLICIT_LENGTH:
        return F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
    return explicit_attention(queries, keys, values, _causal_mask(queries.dtype)[:time, :time])


@functools.lru_cache(maxsize=2)
def _causal_mask(dtype: torch.dtype) -> Tensor:
    """The causal mask of the longest clip, made once; every layer uses its top left corner."""
    with torch.inference_mode(False):
        return torch.full((MAX_EXPLICIT_LENGTH,) * 2, -torch.inf, dtype=dtype).triu(1)


def explicit_attention(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None) -> Tensor:
    """Attention of one clip as explicit matrix products; `mask` [time, time] is added."""
    scale = queries.shape[-1] ** -0.5
    queries, keys, values = queries[0], keys[0], values[0]
    if mask is None:
        scores = (queries * scale) @ keys.transpose(1, 2)
    else:
        mask = mask.expand(len(queries), -1, -1)
        scores = torch.baddbmm(mask, queries, keys.transpose(1, 2), alpha=scale)
    return (scores.softmax(-1) @ values)[None]
