"""Auxiliary losses of the GPT's pretraining: guided attention, and bounded voice latents.

Guided attention (https://arxiv.org/abs/1710.08969) pulls two heads in each of two early layers to
the diagonal from audio to text.
"""

from typing import Any

import torch
from torch import Tensor

from xtts.model.gpt import GPT
from xtts.model.kv_cache import Cache
from xtts.model.packed_batch import PackedBatch
from xtts.model.transformer import Attention

GUIDED_LAYERS, GUIDED_HEADS = (1, 2), 2
# Width of the diagonal, as a share of the sentence.
DIAGONAL = 0.1


class QuickAttention(Attention):
    """The same arithmetic by two matrix products: on a CPU, for rows as short as these, 3 times as
    fast as the flash kernel's backward in bfloat16. `shares` [rows, heads, length, length] stay
    for the guide when `watched`."""

    watched = False
    shares: Tensor

    def forward(self, x: Tensor, cache: Cache | None, layer: int) -> Tensor:
        if cache is not None:
            return super().forward(x, cache, layer)
        rows, length, width = x.shape
        parts = self.c_attn(x).view(rows, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        with torch.autocast(x.device.type, enabled=False):
            queries, keys, values = parts.flatten(1, 2)
            later = torch.full((length, length), -1e9, device=x.device).triu(1).to(queries.dtype)
            scores = torch.baddbmm(
                later.expand(len(queries), -1, -1), queries, keys.transpose(1, 2),
                alpha=(width // self.heads) ** -0.5,
            )  # fmt: skip
            shares = scores.softmax(-1)
            mixed = shares @ values
        if self.watched:
            self.shares = shares.unflatten(0, (rows, self.heads))[:, :GUIDED_HEADS]
        mixed = mixed.unflatten(0, (rows, self.heads)).transpose(1, 2).reshape(rows, length, width)
        return self.dropout(self.c_proj(mixed))


class Guide:
    """Pulls two heads of two early layers to the diagonal from audio to text."""

    def __init__(self, gpt: GPT) -> None:
        blocks: list[Any] = list(gpt.gpt.h)
        for block in blocks:
            block.attn.__class__ = QuickAttention
        layers = [layer for layer in GUIDED_LAYERS if layer < len(gpt.gpt.h)]
        self.watched: list[Any] = [gpt.gpt.h[layer].attn for layer in layers]

    def watch(self, wanted: bool) -> None:
        """Keeps attention in the next forward, or not: it takes time and memory."""
        for attention in self.watched:
            attention.watched = wanted

    def loss(self, rows: PackedBatch) -> Tensor:
        """Minus the log of the attention that lies round the diagonal, mean over audio inputs."""
        ideal = diagonal(rows)
        real = ideal.sum(-1) > 0
        found = []
        for attention in self.watched:
            near = (attention.shares.float() * ideal[:, None]).sum(-1)
            found.append(-(near.transpose(1, 2)[real] + 1e-4).log().mean())
        return torch.stack(found).mean()


class Calm:
    """Keeps what the perceiver makes of a recording at the size of one before it is normed.

    Nothing between its layers is normed, and its gates multiply: left alone it grew within one
    training until its squares overflowed, the norm divided by infinity, and every recording became
    the same 32 zeros, without a gradient to come back by.
    """

    def __init__(self, gpt: GPT) -> None:
        gpt.conditioning_perceiver.norm.register_forward_pre_hook(self._see)
        self._square = torch.zeros(())

    def _see(self, norm: Any, inputs: tuple[Tensor]) -> None:
        self._square = inputs[0].float().square().mean()

    def loss(self) -> Tensor:
        """How far the mean square is above 1, in nats; 0 below."""
        return self._square.clamp(min=1.0).log()


def diagonal(rows: PackedBatch) -> Tensor:
    """[rows, length, length]: 1 where an audio input should look at the text, down to 0 off it."""
    size, length = rows.rows, rows.length
    place = torch.full((2, size * length), -1.0, device=rows.text.device)
    for part, (slots, positions) in enumerate(
        ((rows.text_slots, rows.text_positions), (rows.audio_slots, rows.audio_positions))
    ):
        row = slots // length
        longest = torch.zeros(size, device=slots.device)
        longest.scatter_reduce_(0, row, positions.float(), "amax")
        place[part, slots] = positions.float() / longest[row].clamp(min=1)
    text, audio = place.view(2, size, length)
    near = torch.exp(-((audio[:, :, None] - text[:, None, :]) ** 2) / (2 * DIAGONAL**2))
    return near * (audio >= 0)[:, :, None] * (text >= 0)[:, None, :]
