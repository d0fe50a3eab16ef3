"""Conditioning encoder and perceiver: reference mel to 32 latents.

A mel `[batch, 80, frames]` goes through six attention blocks over time, then a perceiver resampler
(Flamingo, https://arxiv.org/abs/2204.14198) computes 32 latents. Names and arithmetic are those of
Coqui's `ConditioningEncoder` and `PerceiverResampler`. Training packs references of different
lengths (`xtts.model.training`).
"""

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from xtts.model.shapes import NUM_LATENTS

MEL_BANDS = 80
# Fixed by Coqui for every width.
PERCEIVER_HEADS = 8
PERCEIVER_HEAD_WIDTH = 64
PERCEIVER_DEPTH = 2


def _group_count(channels: int) -> int:
    groups = 8 if channels <= 16 else 16 if channels <= 64 else 32
    while channels % groups:
        groups //= 2
    return groups


class TimeGroupNorm(nn.GroupNorm):
    """GroupNorm over [batch, channels, frames] in float32."""

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            return super().forward(x.float())


class AttentionBlock(nn.Module):
    """Every frame attends to every other. The residual starts from the *normed* input (Coqui's
    `tortoise_norm=False`)."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = TimeGroupNorm(_group_count(channels), channels)
        self.qkv = nn.Conv1d(channels, 3 * channels, 1)
        self.proj_out = nn.Conv1d(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        batch, channels, frames = x.shape
        normed = self.norm(x)
        # Heads are split before queries, keys and values: [batch, heads, 3, head_width, frames].
        split = self.qkv(normed).view(batch, self.heads, 3, -1, frames).transpose(3, 4)
        queries, keys, values = split.unbind(2)
        mixed = F.scaled_dot_product_attention(queries, keys, values)
        return normed + self.proj_out(mixed.transpose(2, 3).reshape(batch, channels, frames))


class ConditioningEncoder(nn.Module):
    """[batch, 80, frames] -> [batch, width, frames]."""

    def __init__(self, width: int, heads: int, blocks: int = 6) -> None:
        super().__init__()
        self.init = nn.Conv1d(MEL_BANDS, width, 1)
        self.attn = nn.ModuleList(AttentionBlock(width, heads) for _ in range(blocks))

    def forward(self, mel: Tensor) -> Tensor:
        x = self.init(mel)
        for block in self.attn:
            x = block(x)
        return x


class PerceiverAttention(nn.Module):
    """Latents attend to themselves and to the context."""

    def __init__(self, width: int) -> None:
        super().__init__()
        inner = PERCEIVER_HEADS * PERCEIVER_HEAD_WIDTH
        self.to_q = nn.Linear(width, inner, bias=False)
        self.to_kv = nn.Linear(width, 2 * inner, bias=False)
        self.to_out = nn.Linear(inner, width, bias=False)

    def forward(self, latents: Tensor, context: Tensor) -> Tensor:
        attended = torch.cat((latents, context), dim=1)
        keys, values = self.to_kv(attended).chunk(2, dim=-1)
        queries, keys, values = map(split_heads, (self.to_q(latents), keys, values))
        mixed = F.scaled_dot_product_attention(queries, keys, values)
        return self.to_out(mixed.transpose(1, 2).flatten(2))


class GEGLU(nn.Module):
    """Gated GELU (https://arxiv.org/abs/2002.05202); the gate is the second half."""

    def forward(self, x: Tensor) -> Tensor:
        x, gate = x.chunk(2, dim=-1)
        return x * F.gelu(gate)


class RootMeanSquareNorm(nn.Module):
    """Unit-length rows times sqrt(width) times gamma."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return F.normalize(x, dim=-1) * x.shape[-1] ** 0.5 * self.gamma


class PerceiverResampler(nn.Module):
    """[batch, frames, width] -> [batch, 32, width]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        inner = int(width * 4 * 2 / 3)
        self.latents = nn.Parameter(torch.empty(NUM_LATENTS, width))
        nn.init.normal_(self.latents, std=0.02)
        self.layers = nn.ModuleList(
            nn.ModuleList(
                (
                    PerceiverAttention(width),
                    nn.Sequential(nn.Linear(width, 2 * inner), GEGLU(), nn.Linear(inner, width)),
                )
            )
            for _ in range(PERCEIVER_DEPTH)
        )
        self.norm = RootMeanSquareNorm(width)

    def forward(self, context: Tensor) -> Tensor:
        latents = self.latents.expand(context.shape[0], -1, -1)
        for layer in self.layers:
            attention, feed_forward = cast(nn.ModuleList, layer)
            latents = attention(latents, context) + latents
            latents = feed_forward(latents) + latents
        return self.norm(latents)


def split_heads(x: Tensor) -> Tensor:
    """[batch, time, inner] -> [batch, heads, time, head_width]."""
    return x.unflatten(2, (PERCEIVER_HEADS, PERCEIVER_HEAD_WIDTH)).transpose(1, 2)
