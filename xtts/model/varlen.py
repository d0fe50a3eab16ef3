"""Variable-length attention over clips packed into one row without padding.

Works without a kernel for variable lengths. On a CPU, the clips attend one by one, in the row's
memory. On other devices, one kernel attends in a padded grid, which exists only for the attention
(about 4 % of the multiplications of a training step of XTTS-v2). Both give the results of clips in
padded rows.

Autocast copies each weight and bias of a layer to 16 bits, and each gradient back, with a separate
kernel: sixteen kernels per transformer block, most of them shorter than their launch. Here one
kernel makes all copies of a block and one converts its gradients. The results are identical.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn import functional as F

from xtts.model.gpt import AttentionLayout

# The backward pass of a CPU's flash kernel is slow in bf16: 220 positions of 16 heads take 8.0 ms
# of one core in both directions, and 5.3 ms as explicit matrix products. The memory of these grows
# with the square of the length: 16 heads of 1,024 positions take 34 MB per layer.
LONGEST_WRITTEN_OUT = 1024


@dataclass(frozen=True)
class VarlenLayout(AttentionLayout):
    """Where each clip lies in a row `[1, heads, sum(lengths), head_width]`.

    number [sum(lengths)]: the clip of each position. slots [sum(lengths)]: the place of each
    position in a padded grid `[len(lengths) * max(lengths)]`. sources [len(lengths) *
    max(lengths)]: the position in each place of that grid, 0 for padding.
    """

    lengths: tuple[int, ...]
    number: Tensor
    slots: Tensor
    sources: Tensor

    @staticmethod
    def of(lengths: Sequence[int]) -> "VarlenLayout":
        """The layout of clips of these lengths, in positions."""
        longest, counts = max(lengths), torch.tensor(list(lengths))
        number = torch.repeat_interleave(torch.arange(len(lengths)), counts)
        before = F.pad(counts.cumsum(0)[:-1], (1, 0))
        slots = torch.arange(len(number)) + (number * longest - before[number])
        sources = torch.zeros(len(counts) * longest, dtype=torch.long)
        sources[slots] = torch.arange(len(number))
        return VarlenLayout(tuple(lengths), number, slots, sources)

    def map_tensors(self, move: Callable[[Tensor], Tensor]) -> "VarlenLayout":
        """A copy with `move` applied to each tensor."""
        return replace(self, number=move(self.number), slots=move(self.slots), sources=move(self.sources))

    # The interface for `xtts.model.gpt`.

    def around(self, *parts: nn.Module) -> AbstractContextManager[None]:
        """As in `AttentionLayout`: with gradients, one kernel casts the weights of all parts."""
        parts = parts if torch.is_grad_enabled() else ()
        return cast_together(child for part in parts for child in part.children())

    def attend_packed(self, packed: Tensor, heads: int) -> Tensor | None:
        """As in `AttentionLayout`: all clips in one kernel, with one copy into a padded grid and
        one out of it; causal attention never reads the padding after a clip."""
        if attends_per_clip(packed):
            return None
        queries, keys, values = self.split(packed.view(packed.shape[1], 3, heads, -1))
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
        packed: Tensor = _OutOfGrid.apply(rows, self.slots)
        return packed

    def split(self, packed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """[sum, 3, heads, head_width] -> queries, keys and values in a grid, each
        [clips, heads, longest, head_width].

        The padding is a copy of the first position. The caller must mask it, unless attention is
        causal, and must discard its output. So its gradient is not computed.
        """
        parts: tuple[Tensor, Tensor, Tensor] = _IntoGrid.apply(
            packed, self.sources, self.slots, len(self.lengths)
        )
        return parts

    def pad(self, part: Tensor) -> Tensor:
        """[1, heads, sum, head_width] -> [clips, heads, longest, head_width], padded with zeros."""
        _, heads, _, width = part.shape
        grid = part.new_zeros(len(self.lengths) * max(self.lengths), heads, width)
        grid = grid.index_copy(0, self.slots, part[0].transpose(0, 1))
        return grid.view(len(self.lengths), -1, heads, width).transpose(1, 2)

    def mask(self, like: Tensor, before: int = 0) -> Tensor:
        """The mask `[clips, 1, 1, before + longest]` to add to the scores of a padded grid with the
        keys `like`: 0 for real positions and for `before` keys before them, else -inf. (Attention
        would convert a boolean mask to this with three operations each time.)"""
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


class Context(FunctionCtx):
    """What an operation leaves for its gradient."""

    saved_tensors: tuple[Tensor, ...]
    places: int


class _IntoGrid(torch.autograd.Function):
    """`VarlenLayout.split`: one copy forwards and two backwards. Autograd would add the gradient
    of the padding with atomic sums."""

    @staticmethod
    def forward(
        ctx: Context, packed: Tensor, sources: Tensor, slots: Tensor, clips: int
    ) -> tuple[Tensor, ...]:
        ctx.save_for_backward(slots)
        grid = packed.index_select(0, sources)
        return grid.view(clips, -1, *packed.shape[1:]).permute(2, 0, 3, 1, 4).unbind()

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        (slots,) = ctx.saved_tensors
        grid = torch.stack([gradient.transpose(1, 2) for gradient in gradients], 2)
        return grid.flatten(0, 1).index_select(0, slots), None, None, None


class _OutOfGrid(torch.autograd.Function):
    """Rows `[clips * longest, width]` of a grid -> `[sum, width]`. No row is used twice, so the
    gradient is a copy, not a sum."""

    @staticmethod
    def forward(ctx: Context, rows: Tensor, slots: Tensor) -> Tensor:
        ctx.save_for_backward(slots)
        ctx.places = len(rows)
        return rows.index_select(0, slots)

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, gradient: Tensor) -> tuple[Tensor, None]:
        (slots,) = ctx.saved_tensors
        grid = gradient.new_zeros(ctx.places, gradient.shape[1])
        return grid.index_copy_(0, slots, gradient), None


def attends_per_clip(like: Tensor) -> bool:
    """Whether the clips attend one by one: on a CPU, where many small kernels cost nothing."""
    return like.device.type == "cpu"


def causal_attention(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Causal attention of one clip, [1, heads, time, head_width]."""
    time = queries.shape[2]
    if queries.dtype == torch.float32 or time > LONGEST_WRITTEN_OUT:
        return F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
    return attention(queries, keys, values, _later(queries.dtype)[:time, :time])


@functools.lru_cache(maxsize=2)
def _later(dtype: torch.dtype) -> Tensor:
    """The causal mask of the longest clip, made once; every layer uses its top left corner."""
    with torch.inference_mode(False):
        return torch.full((LONGEST_WRITTEN_OUT,) * 2, -torch.inf, dtype=dtype).triu(1)


def attention(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None) -> Tensor:
    """Attention of one clip as explicit matrix products; `mask` [time, time] is added."""
    spread = queries.shape[-1] ** -0.5
    (queries,), (keys,), (values,) = queries, keys, values
    if mask is None:
        scores = (queries * spread) @ keys.transpose(1, 2)
    else:
        mask = mask.expand(len(queries), -1, -1)
        scores = torch.baddbmm(mask, queries, keys.transpose(1, 2), alpha=spread)
    return (scores.softmax(-1) @ values)[None]


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
    def forward(ctx: Context, kind: torch.dtype, *weights: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        return _copy(weights, kind)

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        present = [gradient for gradient in gradients if gradient is not None]
        widened = iter(_copy(present, torch.float32) if present else ())
        return None, *(None if gradient is None else next(widened) for gradient in gradients)


def _copy(tensors: Iterable[Tensor], kind: torch.dtype) -> tuple[Tensor, ...]:
    tensors = list(tensors)
    copies = [torch.empty_like(tensor, dtype=kind) for tensor in tensors]
    torch._foreach_copy_(copies, tensors)
    return tuple(copies)
