"""Conditioning latents of several references at once, packed without padding.

Training hears 3 to 6 s for each clip; padded to the longest, a quarter would be nothing. Where a
kernel would need atomic additions to sum over a clip there is a product instead: the same bits each
time, on a GPU as well.
"""

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from xtts.model import varlen
from xtts.model.conditioning import (
    NUM_LATENTS,
    PERCEIVER_HEAD_WIDTH,
    PERCEIVER_HEADS,
    AttentionBlock,
    ConditioningEncoder,
    PerceiverAttention,
    PerceiverResampler,
    TimeGroupNorm,
)
from xtts.model.varlen import VarlenLayout, attention


def packed_conditioning_latents(
    encoder: ConditioningEncoder, perceiver: PerceiverResampler, mel: Tensor, clips: VarlenLayout
) -> Tensor:
    """Mel frames `[sum(lengths), 80]` of several clips -> `[clips, 32, width]`."""
    among = torch.arange(len(clips.lengths), device=mel.device)[:, None] == clips.number
    member = among.to(torch.float32)
    x = _pointwise(encoder.init, mel)
    for module in encoder.attn:
        x = _block(cast(AttentionBlock, module), x, clips, member)
    latents = perceiver.latents.expand(len(clips.lengths), -1, -1)
    for layer in perceiver.layers:
        resampling, feed_forward = cast(nn.ModuleList, layer)
        latents = _resampled(cast(PerceiverAttention, resampling), latents, x, clips) + latents
        latents = feed_forward(latents) + latents
    return perceiver.norm(latents)


def _pointwise(convolution: nn.Module, x: Tensor) -> Tensor:
    """A convolution over one frame is a product: [frames, in] -> [frames, out]."""
    weight, bias = cast(Tensor, convolution.weight), cast(Tensor, convolution.bias)
    return F.linear(x, weight[:, :, 0], bias)


def _block(block: AttentionBlock, x: Tensor, clips: VarlenLayout, member: Tensor) -> Tensor:
    normed = _normed(block.norm, x, clips, member)
    split = _pointwise(block.qkv, normed).view(len(x), block.heads, 3, -1)
    queries, keys, values = (part.transpose(0, 1)[None] for part in split.unbind(2))
    mixed = _attended(queries, keys, values, clips)
    return normed + _pointwise(block.proj_out, mixed[0].transpose(0, 1).flatten(1))


def _normed(norm: TimeGroupNorm, x: Tensor, clips: VarlenLayout, member: Tensor) -> Tensor:
    """Mean and variance of each group over the frames of its clip; member [clips, frames]."""
    with torch.autocast(x.device.type, enabled=False):
        x = x.float()
        if varlen.attends_per_clip(x):
            return torch.cat([_normed_clip(norm, part) for part in x.split(clips.lengths)])
        grouped = x.view(len(x), norm.num_groups, -1)
        share = member / member.sum(1, keepdim=True)
        mean = member.t() @ (share @ grouped.mean(2))
        centred = grouped - mean[:, :, None]
        variance = share @ centred.square().mean(2)
        scale = member.t() @ (variance + norm.eps).rsqrt()
        return (centred * scale[:, :, None]).flatten(1) * norm.weight + norm.bias


def _normed_clip(norm: TimeGroupNorm, x: Tensor) -> Tensor:
    """[frames, width] of one clip: as an image of one column, channels innermost, so that torch's
    kernel takes it as it lies in memory."""
    image = x.t()[None, :, :, None]
    return F.group_norm(image, norm.num_groups, norm.weight, norm.bias, norm.eps)[0, :, :, 0].t()


def _attended(queries: Tensor, keys: Tensor, values: Tensor, clips: VarlenLayout) -> Tensor:
    """Each frame sees every frame of its clip; [1, heads, frames, head_width]."""
    if varlen.attends_per_clip(queries):
        split = (part.split(clips.lengths, 2) for part in (queries, keys, values))
        return torch.cat([_seen(*part) for part in zip(*split, strict=True)], 2)
    queries, keys, values = (clips.padded(part) for part in (queries, keys, values))
    return clips.flat(F.scaled_dot_product_attention(queries, keys, values, clips.present()))


def _resampled(
    module: PerceiverAttention, latents: Tensor, frames: Tensor, clips: VarlenLayout
) -> Tensor:
    """The latents of each clip look at themselves and at its frames: [clips, 32, width]."""
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
    mask = F.pad(clips.present(), (NUM_LATENTS, 0), value=True)
    seen = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
    return module.to_out(seen.transpose(1, 2).flatten(2))


def _heads(x: Tensor) -> Tensor:
    """[batch, time, inner] -> [batch, heads, time, head_width]."""
    return x.unflatten(2, (PERCEIVER_HEADS, PERCEIVER_HEAD_WIDTH)).transpose(1, 2)


def _seen(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    if queries.dtype == torch.float32:
        return F.scaled_dot_product_attention(queries, keys, values)
    return attention(queries, keys, values)
