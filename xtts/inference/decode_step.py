"""One decode step of the transformer with a key-value cache.

The same numbers, bit for bit in float32, as `GPT.prefill` says with one position a row; but thirty
layers of modules, views and copies cost as much as a fifth of the weights (docs/benchmarks.md).
Nothing here asks the device for a value, so a CUDA graph can hold it
(`xtts.inference.cuda_graphs`).
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from xtts.model.gpt import GPT
from xtts.model.transformer import Block

_gelu = torch._C._nn.gelu  # what nn.functional calls, behind fewer doors


class DecodeCache(Protocol):
    """What a step asks of a cache."""

    def attend_next(self, layer: int, packed: Tensor) -> Tensor:
        """One position of each row: queries, keys and values `[rows, 3, heads, 1, head_width]` ->
        `[rows, heads, 1, head_width]`; remembers keys and values."""

    def advance(self, time: int) -> None:
        """Counts a new position, behind the last layer."""


class _Norm(NamedTuple):
    width: tuple[int, ...]
    weight: Tensor
    bias: Tensor
    eps: float

    def __call__(self, x: Tensor) -> Tensor:
        return torch.layer_norm(x, self.width, self.weight, self.bias, self.eps)


class _Layer(NamedTuple):
    norm_1: _Norm
    attend: Callable[[Tensor], Tensor]
    attended: Callable[[Tensor], Tensor]
    norm_2: _Norm
    widen: Callable[[Tensor], Tensor]
    narrow: Callable[[Tensor], Tensor]


class DecodeStep:
    """Keeps hold of `gpt`'s weights as they are now."""

    def __init__(self, gpt: GPT) -> None:
        transformer = gpt.gpt
        self._packed_shape = (-1, 3, transformer.heads, 1, transformer.width // transformer.heads)
        self._width = transformer.width
        # In 16 bits the stream has as many, and float32 at both ends.
        self._inside = transformer.ln_f.weight.dtype
        self._layers = [_layer(block) for block in transformer.h if isinstance(block, Block)]
        self._norms = _norm(transformer.ln_f), _norm(gpt.final_norm)
        self._codes = gpt.mel_embedding.weight
        self._positions = gpt.mel_pos_embedding.emb.weight
        self._head = gpt.mel_head.forward

    def __call__(
        self, codes: Tensor, positions: Tensor, cache: DecodeCache
    ) -> tuple[Tensor, Tensor]:
        """Codes `[rows]` at their audio positions `[rows]`, behind the cache -> (latents
        `[rows, width]`, audio logits `[rows, audio_ids]`)."""
        x = torch.embedding(self._codes, codes) + torch.embedding(self._positions, positions)
        outside = x.dtype
        if outside != self._inside:
            x = x.to(self._inside)
        for number, layer in enumerate(self._layers):
            packed = layer.attend(layer.norm_1(x)).view(self._packed_shape)
            x += layer.attended(cache.attend_next(number, packed).reshape(-1, self._width))
            x += layer.narrow(_gelu(layer.widen(layer.norm_2(x)), approximate="tanh"))
        cache.advance(1)
        before, after = self._norms
        latents = before(x)
        latents = after(latents if outside == self._inside else latents.to(outside))
        return latents, self._head(latents)


def _layer(block: Block) -> _Layer:
    attention, feed_forward = block.attn, block.mlp
    return _Layer(
        _norm(block.ln_1), attention.c_attn.forward, attention.c_proj.forward,
        _norm(block.ln_2), feed_forward.c_fc.forward, feed_forward.c_proj.forward,
    )  # fmt: skip


def _norm(norm: nn.LayerNorm) -> _Norm:
    return _Norm(norm.normalized_shape, norm.weight, norm.bias, norm.eps)
