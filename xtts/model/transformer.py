"""The causal transformer blocks (GPT-2).

Packed training, LoRA and ONNX share this definition. Speech runs its layers with a key-value cache
(`xtts.inference.decode_step`). Weights are `nn.Linear`, `[out, in]`. On disk Coqui uses Hugging
Face's Conv1D orientation, `[in, out]`; only `xtts.model.gpt` transposes them.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from xtts.model.kv_cache import KeyValueCache


class AttentionLayout(Protocol):
    """Computes attention in place of `Attention`: between the clips of a packed row in training,
    and with the past in an exported graph. Tensors are [batch, heads, time, head_width]."""

    def around(self, *parts: nn.Module) -> AbstractContextManager[None]:
        """A context for the forward of these parts of a block; training casts their weights."""
        return nullcontext()

    def attend_packed(self, packed: Tensor, heads: int) -> Tensor | None:
        """The attention of adjacent queries, keys and values `[batch, time, 3 * width]` ->
        `[batch, time, width]`; None if `attend` computes it."""
        return None

    def attend(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """The attention, causal within these positions."""


class Dropout(nn.Dropout):
    """Dropout with cheap random numbers on a CPU: 16 bits per value.

    torch's dropout draws value by value in one thread: 4.3 ms for 790 positions of 1,024; this
    takes 0.7 ms. The probability is rounded to 1/65,536, and kept values are scaled by the rounded
    one, so that the mean is preserved. On other devices this is torch's dropout.
    """

    def forward(self, input: Tensor) -> Tensor:
        if not self.training or self.p == 0 or input.device.type != "cpu":
            return super().forward(input)
        dropped = min(round(self.p * 2**16), 2**16 - 1)
        bits = torch.empty(-(-input.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
        kept = bits.view(torch.int16)[: input.numel()].ge_(dropped - 2**15)
        scale = 2**16 / (2**16 - dropped)
        return input * kept.to(input.dtype).mul_(scale).view(input.shape)


class Attention(nn.Module):
    """Causal self-attention, without dropout on the attention weights, which flash kernels on a CPU
    do not support."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, layout: AttentionLayout | None, layer: int) -> Tensor:
        batch, time, width = x.shape
        packed = self.c_attn(x)
        if layout is not None and (mixed := layout.attend_packed(packed, self.heads)) is not None:
            return self.dropout(self.c_proj(mixed))
        queries, keys, values = (
            part.view(batch, time, self.heads, -1).transpose(1, 2)
            for part in packed.split(width, dim=2)
        )
        if layout is None:
            mixed = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        else:
            mixed = layout.attend(layer, queries, keys, values)
        mixed = mixed.transpose(1, 2).reshape(batch, time, width)
        return self.dropout(self.c_proj(mixed))


class FeedForward(nn.Module):
    """Two linear layers around a GELU in GPT-2's tanh form."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.c_fc = nn.Linear(width, 4 * width)
        self.c_proj = nn.Linear(4 * width, width)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(self.c_proj(F.gelu(self.c_fc(x), approximate="tanh")))


class Block(nn.Module):
    """Pre-norm attention and feed-forward, each added to the stream."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads, dropout)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = FeedForward(width, dropout)

    def forward(self, x: Tensor, layout: AttentionLayout | None, layer: int) -> Tensor:
        with nullcontext() if layout is None else layout.around(self.attn, self.mlp):
            x = x + self.attn(self.ln_1(x), layout, layer)
            return x + self.mlp(self.ln_2(x))


class Transformer(nn.Module):
    """GPT-2 without its embeddings; the caller adds the positions.

    `dropout` works on the embeddings and on both residual branches, as in GPT-2.
    """

    def __init__(self, layers: int, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"width {width} is not a multiple of {heads} heads")
        self.heads = heads
        self.width = width
        self.dropout = Dropout(dropout)
        self.h = nn.ModuleList(Block(width, heads, dropout) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        self.cache_type = torch.float32

    def forward(self, x: Tensor, layout: AttentionLayout | None = None) -> Tensor:
        """[batch, time, width] -> the same shape; every position attends to itself and to earlier
        ones, or as `layout` computes it."""
        outside, inside = x.dtype, self.ln_f.weight.dtype
        # With 16-bit weights the residual stream has 16 bits too; input and output are float32.
        x = self.dropout(x if outside == inside else x.to(inside))
        for layer, block in enumerate(self.h):
            x = block(x, layout, layer)
        hidden: Tensor = self.ln_f(x)
        return hidden if outside == inside else hidden.to(outside)

    def new_cache(self, batch: int, capacity: int) -> KeyValueCache:
        """An empty cache for this transformer, on the device of its weights."""
        size = len(self.h), batch, 2, self.heads, capacity, self.width // self.heads
        return KeyValueCache(self.ln_f.weight.new_zeros(size, dtype=self.cache_type))
