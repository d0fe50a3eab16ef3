"""Conditioning encoder and perceiver: reference mel to 32 latents.

A mel `[batch, 80, frames]` goes through six attention blocks over time, then a perceiver resampler
(Flamingo, https://arxiv.org/abs/2204.14198) computes 32 latents. Names and arithmetic are those of
Coqui's `ConditioningEncoder` and `PerceiverResampler`. We add `lengths`, so that references of
different length can share a batch.

In training, several references of 3 to 6 s are packed without padding
(`packed_conditioning_latents`); padded to the longest, a quarter would be padding. Sums over a clip
are matrix products instead of atomic additions, so that the results are deterministic on a GPU too.
"""

from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from xtts.model import varlen
from xtts.model.shapes import NUM_LATENTS
from xtts.model.varlen import VarlenLayout, attention

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
    """GroupNorm over [batch, channels, frames] in float32 that ignores padded frames."""

    def forward(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            if valid is None:
                return super().forward(x.float())
            batch, _, frames = x.shape
            grouped = x.float().view(batch, self.num_groups, -1, frames)
            weight = valid[:, None, None, :].float()
            count = weight.sum((2, 3), keepdim=True) * grouped.shape[2]
            mean = (grouped * weight).sum((2, 3), keepdim=True) / count
            variance = ((grouped - mean).square() * weight).sum((2, 3), keepdim=True) / count
            normed = ((grouped - mean) * (variance + self.eps).rsqrt()).view_as(x)
            return normed * self.weight[:, None] + self.bias[:, None]


class AttentionBlock(nn.Module):
    """Every frame attends to every other. The residual starts from the *normed* input (Coqui's
    `tortoise_norm=False`)."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = TimeGroupNorm(_group_count(channels), channels)
        self.qkv = nn.Conv1d(channels, 3 * channels, 1)
        self.proj_out = nn.Conv1d(channels, channels, 1)

    def forward(self, x: Tensor, valid: Tensor | None) -> Tensor:
        batch, channels, frames = x.shape
        normed = self.norm(x, valid)
        # Heads are split before queries, keys and values: [batch, heads, 3, head_width, frames].
        split = self.qkv(normed).view(batch, self.heads, 3, -1, frames).transpose(3, 4)
        queries, keys, values = split.unbind(2)
        mask = None if valid is None else valid[:, None, None, :]
        mixed = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
        return normed + self.proj_out(mixed.transpose(2, 3).reshape(batch, channels, frames))


class ConditioningEncoder(nn.Module):
    """[batch, 80, frames] -> [batch, width, frames]."""

    def __init__(self, width: int, heads: int, blocks: int = 6) -> None:
        super().__init__()
        self.init = nn.Conv1d(MEL_BANDS, width, 1)
        self.attn = nn.ModuleList(AttentionBlock(width, heads) for _ in range(blocks))

    def forward(self, mel: Tensor, valid: Tensor | None = None) -> Tensor:
        x = self.init(mel)
        for block in self.attn:
            x = block(x, valid)
        return x


class PerceiverAttention(nn.Module):
    """Latents attend to themselves and to the context."""

    def __init__(self, width: int) -> None:
        super().__init__()
        inner = PERCEIVER_HEADS * PERCEIVER_HEAD_WIDTH
        self.to_q = nn.Linear(width, inner, bias=False)
        self.to_kv = nn.Linear(width, 2 * inner, bias=False)
        self.to_out = nn.Linear(inner, width, bias=False)

    def forward(self, latents: Tensor, context: Tensor, mask: Tensor | None) -> Tensor:
        seen = torch.cat((latents, context), dim=1)
        keys, values = self.to_kv(seen).chunk(2, dim=-1)
        queries, keys, values = map(_heads, (self.to_q(latents), keys, values))
        mixed = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
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

    def forward(self, context: Tensor, valid: Tensor | None = None) -> Tensor:
        latents = self.latents.expand(context.shape[0], -1, -1)
        mask = None
        if valid is not None:
            mask = F.pad(valid, (NUM_LATENTS, 0), value=True)[:, None, None, :]
        for layer in self.layers:
            attention, feed_forward = cast(nn.ModuleList, layer)
            latents = attention(latents, context, mask) + latents
            latents = feed_forward(latents) + latents
        return self.norm(latents)


def packed_conditioning_latents(
    encoder: ConditioningEncoder, perceiver: PerceiverResampler, mel: Tensor, clips: VarlenLayout
) -> Tensor:
    """Mel frames `[sum(lengths), 80]` of several clips -> `[clips, 32, width]`."""
    among = torch.arange(len(clips.lengths), device=mel.device)[:, None] == clips.number
    member = among.to(torch.float32)
    means = member.t(), member / member.sum(1, keepdim=True)
    x = _pointwise(encoder.init, mel)
    for module in encoder.attn:
        x = _block(cast(AttentionBlock, module), x, clips, means)
    latents = perceiver.latents.expand(len(clips.lengths), -1, -1)
    for layer in perceiver.layers:
        resampling, feed_forward = cast(nn.ModuleList, layer)
        latents = _resampled(cast(PerceiverAttention, resampling), latents, x, clips) + latents
        latents = feed_forward(latents) + latents
    return perceiver.norm(latents)


# [frames, clips]: 1 where a frame belongs to a clip; [clips, frames]: the weights of the mean over
# a clip.
_Means = tuple[Tensor, Tensor]


def _pointwise(convolution: nn.Module, x: Tensor) -> Tensor:
    """A convolution of width 1 as a matrix product: [frames, in] -> [frames, out]."""
    weight, bias = cast(Tensor, convolution.weight), cast(Tensor, convolution.bias)
    return F.linear(x, weight.squeeze(2), bias)


def _block(block: AttentionBlock, x: Tensor, clips: VarlenLayout, means: _Means) -> Tensor:
    normed = _normed(block.norm, x, clips, means)
    split = _pointwise(block.qkv, normed).view(len(x), block.heads, 3, -1)
    return normed + _pointwise(block.proj_out, _attended(split.transpose(1, 2), clips))


def _normed(norm: TimeGroupNorm, x: Tensor, clips: VarlenLayout, means: _Means) -> Tensor:
    """The group norm of packed clips: mean and variance of each group over the frames of its
    clip."""
    with torch.autocast(x.device.type, enabled=False):
        x = x.float()
        if varlen.attends_per_clip(x):
            return torch.cat([_normed_clip(norm, part) for part in x.split(clips.lengths)])
        normed: Tensor = _NormOfClips.apply(
            x, norm.weight, norm.bias, norm.num_groups, norm.eps, means
        )
        return normed


class _NormOfClips(torch.autograd.Function):
    """GroupNorm of each clip, [frames, width], with an explicit gradient, which takes a third of
    the operations of autograd's."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, groups: int, eps: float, means: _Means
    ) -> Tensor:
        grouped, (member, share) = x.view(len(x), groups, -1), means
        mean = member @ (share @ grouped.mean(2))
        centred = grouped - mean.unsqueeze(2)
        variance = share @ centred.square().mean(2)
        scale = (member @ (variance + eps).rsqrt()).unsqueeze(2)
        normed = centred * scale
        ctx.save_for_backward(normed, scale, weight, *means)
        return torch.addcmul(bias, normed.flatten(1), weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        normed, scale, weight, member, share = ctx.saved_tensors
        inner = (gradient * weight).view_as(normed)
        along = inner * normed
        both = member @ (share @ torch.cat((inner.mean(2), along.mean(2)), 1))
        mean, slope = both.unsqueeze(2).chunk(2, 1)
        moved = torch.addcmul(inner - mean, normed, slope, value=-1).mul_(scale)
        own = (gradient * normed.flatten(1)).sum(0)
        return moved.flatten(1), own, gradient.sum(0), None, None, None


def _normed_clip(norm: TimeGroupNorm, x: Tensor) -> Tensor:
    """GroupNorm of one clip, [frames, width], passed as a channels-last image of one column, so
    that torch's kernel needs no copy."""
    image = x.t()[None, :, :, None]
    return F.group_norm(image, norm.num_groups, norm.weight, norm.bias, norm.eps)[0, :, :, 0].t()


def _attended(packed: Tensor, clips: VarlenLayout) -> Tensor:
    """Attention within each clip: [frames, 3, heads, head_width] -> [frames, width]."""
    if varlen.attends_per_clip(packed):
        queries, keys, values = (part.transpose(0, 1)[None] for part in packed.unbind(1))
        split = (part.split(clips.lengths, 2) for part in (queries, keys, values))
        mixed = torch.cat([_seen(*part) for part in zip(*split, strict=True)], 2)
        return mixed[0].transpose(0, 1).flatten(1)
    seen = F.scaled_dot_product_attention(*clips.parted(packed), clips.mask(packed))
    return clips.out_of_grid(seen)


def _resampled(
    module: PerceiverAttention, latents: Tensor, frames: Tensor, clips: VarlenLayout
) -> Tensor:
    """The latents of each clip attend to themselves and to its frames: [clips, 32, width]."""
    queries = _heads(module.to_q(latents))
    own = [_heads(part) for part in module.to_kv(latents).chunk(2, dim=-1)]
    heard = [_heads(part[None]) for part in module.to_kv(frames).chunk(2, dim=-1)]
    if varlen.attends_per_clip(latents):
        split = (part.split(clips.lengths, 2) for part in heard)
        mixed = [
            _seen(
                queries[clip : clip + 1],
                torch.cat((own[0][clip : clip + 1], keys), 2),
                torch.cat((own[1][clip : clip + 1], values), 2),
            )
            for clip, (keys, values) in enumerate(zip(*split, strict=True))
        ]
        return module.to_out(torch.cat(mixed).transpose(1, 2).flatten(2))
    keys, values = (torch.cat((a, clips.padded(b)), 2) for a, b in zip(own, heard, strict=True))
    mask = clips.mask(keys, NUM_LATENTS)
    seen = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
    return module.to_out(seen.transpose(1, 2).flatten(2))


def _heads(x: Tensor) -> Tensor:
    """[batch, time, inner] -> [batch, heads, time, head_width]."""
    return x.unflatten(2, (PERCEIVER_HEADS, PERCEIVER_HEAD_WIDTH)).transpose(1, 2)


def _seen(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    if queries.dtype == torch.float32:
        return F.scaled_dot_product_attention(queries, keys, values)
    return attention(queries, keys, values)
