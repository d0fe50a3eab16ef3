"""Training of the GPT: the packed batch, the forward over it, and the losses.

Clips are packed into one row without padding:

    [ 32 conditioning | START t1 … tn (STOP) | START c1 … cm STOP STOP STOP ]
                        t1 … tn STOP           c1 … cm  STOP STOP STOP STOP     <- targets

Coqui puts text and audio at fixed columns and masks the gaps; the results are the same, because
positions are counted per part. Coqui masks the text STOP *input* in training, but feeds it when
speaking; `stop_input` is whether the model was trained with it.

All clips are in one row (`xtts.model.varlen`). Tokens are stored flat, and `*_slots` give their
positions in the row, so embeddings and heads run without a host-device synchronisation. The
references of a batch, 3 to 6 s each, are packed, too; padded to the longest, a quarter would be
padding. Sums over a clip are matrix products instead of atomic additions, so that the results are
deterministic on a GPU too.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence
from torch.utils.checkpoint import checkpoint

from xtts.model import casting
from xtts.model.casting import Context
from xtts.model.conditioning import (
    AttentionBlock,
    ConditioningEncoder,
    PerceiverAttention,
    PerceiverResampler,
    TimeGroupNorm,
    split_heads,
)
from xtts.model.gpt import GPT
from xtts.model.shapes import NUM_LATENTS, GPTShape
from xtts.model.varlen import VarlenLayout, explicit_attention

# ceil(samples / 1024) codes, then four STOP targets: Coqui's `code_lengths = … + 3`, plus one.
STOP_TARGETS = 4


@dataclass(frozen=True)
class PackedBatch:
    """A training batch of clips in one row.

    Attributes:
        length: The number of slots in the row.
        segments: The layout of the clips in the row.
        frames: The layout of the clips' mel frames.
        conditioning: Mels `[clips, 80, frames]`, padded.
        conditioning_slots: The slots of the conditioning latents.
        text, audio: The input tokens of all clips, with the position of each within its part, and
            its slot.
        text_targets, audio_targets: The target tokens of all clips, with the slot of each.
    """

    length: int
    segments: VarlenLayout
    frames: VarlenLayout
    conditioning: Tensor
    conditioning_slots: Tensor
    text: Tensor
    text_positions: Tensor
    text_slots: Tensor
    text_targets: Tensor
    text_target_slots: Tensor
    audio: Tensor
    audio_positions: Tensor
    audio_slots: Tensor
    audio_targets: Tensor
    audio_target_slots: Tensor

    @property
    def num_targets(self) -> tuple[int, int]:
        """The number of targets of each loss, in the order of `Losses`."""
        return len(self.text_targets), len(self.audio_targets)

    def to(self, device: torch.device | str) -> "PackedBatch":
        """The same rows on `device`; the copy is asynchronous."""
        return self._map_tensors(lambda tensor: tensor.to(device, non_blocking=True))

    def pinned(self) -> "PackedBatch":
        """The same rows in pinned memory, from which a GPU can copy asynchronously."""
        return self._map_tensors(lambda tensor: tensor.pin_memory())

    def _map_tensors(self, move: Callable[[Tensor], Tensor]) -> "PackedBatch":
        moved: dict[str, Any] = {}
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                moved[name] = move(value)
            elif isinstance(value, VarlenLayout):
                moved[name] = value.map_tensors(move)
        return replace(self, **moved)

    def without_targets(self) -> "PackedBatch":
        """The same rows without targets."""
        return replace(
            self,
            text_targets=self.text_targets[:0],
            text_target_slots=self.text_target_slots[:0],
            audio_targets=self.audio_targets[:0],
            audio_target_slots=self.audio_target_slots[:0],
        )


def row_length(num_tokens: int, num_codes: int, stop_input: bool) -> int:
    """The number of positions of a clip with `num_tokens` text tokens and `num_codes` codes."""
    return NUM_LATENTS + num_tokens + 1 + stop_input + num_codes + STOP_TARGETS


def pack(
    tokens: Sequence[Tensor],
    codes: Sequence[Tensor],
    conditioning: Sequence[Tensor],
    shape: GPTShape,
    *,
    stop_input: bool,
    unheard: Sequence[tuple[int, int]] | None = None,
) -> PackedBatch:
    """Packs clips into a batch.

    Args:
        tokens: `[n]` of each clip.
        codes: `[m]` of each clip.
        conditioning: The mel `[80, frames]` of each clip.
        unheard: (first, last + 1) of each clip: the codes that are not targets, because its
            conditioning was cut from there.
    """
    lengths = [row_length(len(t), len(c), stop_input) for t, c in zip(tokens, codes, strict=True)]
    starts = [0, *itertools.accumulate(lengths)]
    text_parts, audio_parts = [], []
    for index, (clip_tokens, clip_codes) in enumerate(zip(tokens, codes, strict=True)):
        start = starts[index] + NUM_LATENTS
        text, text_targets = _text_part(clip_tokens, shape, stop_input)
        audio, audio_targets = _audio_part(clip_codes, shape)
        excluded = unheard[index] if unheard else (0, 0)
        text_parts.append(_with_slots(start, text, text_targets))
        audio_parts.append(_with_slots(start + len(text), audio, audio_targets, excluded))
    latent_slots = (torch.tensor(starts[:-1])[:, None] + torch.arange(NUM_LATENTS)).flatten()
    segments, frames = VarlenLayout.of(lengths), VarlenLayout.of([mel.shape[1] for mel in conditioning])
    mels = pad_sequence([mel.float().T for mel in conditioning], batch_first=True).transpose(1, 2)
    return PackedBatch(
        starts[-1], segments, frames, mels, latent_slots, *_flat(text_parts), *_flat(audio_parts)
    )


def _text_part(tokens: Tensor, shape: GPTShape, stop_input: bool) -> tuple[Tensor, Tensor]:
    start, stop = tokens.new_tensor([shape.text_start]), tokens.new_tensor([shape.text_stop])
    inputs = torch.cat((start, tokens, stop) if stop_input else (start, tokens))
    # A STOP input is without a target, because the first audio id after it is always START.
    return inputs, torch.cat((tokens, stop))


def _audio_part(codes: Tensor, shape: GPTShape) -> tuple[Tensor, Tensor]:
    """The input and target codes of a clip's audio."""
    stops = codes.new_full((STOP_TARGETS,), shape.audio_stop)
    inputs = torch.cat((codes.new_tensor([shape.audio_start]), codes, stops[1:]))
    return inputs, torch.cat((codes, stops))


def _flat(parts: Sequence[tuple[Tensor, ...]]) -> list[Tensor]:
    """Concatenates each of the five tensors of `_with_slots` over the clips."""
    return [torch.cat(column) for column in zip(*parts, strict=True)]


def _with_slots(
    start: int, inputs: Tensor, targets: Tensor, excluded: tuple[int, int] = (0, 0)
) -> tuple[Tensor, ...]:
    """The text or audio of a clip, which begins at slot `start`: the inputs, their positions and
    slots; the targets and their slots, without those from excluded[0] to excluded[1] - 1."""
    positions, target_positions = torch.arange(len(inputs)), torch.arange(len(targets))
    mask = (target_positions < excluded[0]) | (target_positions >= excluded[1])
    target_slots = start + target_positions[mask]
    return inputs.long(), positions, start + positions, targets.long()[mask], target_slots


# Targets per chunk of logits: with 6,681 text ids in float32, a chunk takes 55 MB.
LOGITS_CHUNK = 2048


class Losses(NamedTuple):
    """Mean cross-entropies in nats per token."""

    text: Tensor
    audio: Tensor


def losses(gpt: GPT, rows: PackedBatch) -> Losses:
    """The cross-entropies of text and audio, each the mean over its targets in the batch; 0
    without targets."""
    states = hidden_states(gpt, rows)
    return Losses(
        cross_entropy(gpt.text_head, states, rows.text_target_slots, rows.text_targets),
        cross_entropy(gpt.mel_head, states, rows.audio_target_slots, rows.audio_targets),
    )


def hidden_states(gpt: GPT, rows: PackedBatch, latents: Tensor | None = None) -> Tensor:
    """The normed output `[length, width]` of every slot of the row. latents: of the conditioning,
    `[clips, 32, width]`; None computes them from its mel."""
    if latents is None:
        latents = latents_of_mels(gpt, rows.conditioning, rows.frames)
    text = gpt.text_embedding(rows.text) + gpt.text_pos_embedding(rows.text_positions)
    audio = gpt.mel_embedding(rows.audio) + gpt.mel_pos_embedding(rows.audio_positions)
    row = text.new_zeros(rows.length, gpt.shape.width)
    row = row.index_copy(0, rows.conditioning_slots, latents.flatten(0, 1).to(row.dtype))
    row = row.index_copy(0, rows.text_slots, text)
    row = row.index_copy(0, rows.audio_slots, audio)
    states: Tensor = gpt.final_norm(gpt.gpt(row[None], rows.segments))[0]
    return states


def latents_of_mels(gpt: GPT, mel: Tensor, clips: VarlenLayout) -> Tensor:
    """The conditioning latents `[clips, 32, width]` of mels `[clips, 80, longest]`."""
    frames = mel.transpose(1, 2).flatten(0, 1)
    encoder, perceiver = gpt.conditioning_encoder, gpt.conditioning_perceiver
    with casting.cast_together(itertools.chain(encoder.modules(), perceiver.modules())):
        packed = frames.index_select(0, clips.grid_index)
        return packed_conditioning_latents(encoder, perceiver, packed, clips)


def cross_entropy(head: nn.Module, hidden: Tensor, slots: Tensor, targets: Tensor) -> Tensor:
    """The mean cross-entropy of `head` at these slots of `hidden`, in float32.

    With many targets, only one chunk of logits is in memory: the backward pass computes each chunk
    again, which takes 2 % of a step of XTTS-v2.
    """
    total = hidden.new_zeros((), dtype=torch.float32)
    chunks = list(zip(slots.split(LOGITS_CHUNK), targets.split(LOGITS_CHUNK), strict=True))
    for chunk in chunks:
        if len(chunks) > 1 and torch.is_grad_enabled():
            loss = checkpoint(_loss_sum, head, hidden, *chunk, use_reentrant=False, preserve_rng_state=False)
        else:
            loss = _loss_sum(head, hidden, *chunk)
        total = total + loss
    return total / max(1, len(targets))


def _loss_sum(head: nn.Module, hidden: Tensor, slots: Tensor, targets: Tensor) -> Tensor:
    logits = head(hidden.index_select(0, slots))
    return F.cross_entropy(logits.float(), targets, reduction="sum")


def packed_conditioning_latents(
    encoder: ConditioningEncoder, perceiver: PerceiverResampler, mel: Tensor, clips: VarlenLayout
) -> Tensor:
    """Mel frames `[sum(lengths), 80]` of several clips -> `[clips, 32, width]`."""
    is_of_clip = torch.arange(len(clips.lengths), device=mel.device)[:, None] == clips.clip_of_position
    membership = is_of_clip.to(torch.float32)
    means = membership.t(), membership / membership.sum(1, keepdim=True)
    x = _pointwise(encoder.init, mel)
    for module in encoder.attn:
        x = _attention_block(cast(AttentionBlock, module), x, clips, means)
    latents = perceiver.latents.expand(len(clips.lengths), -1, -1)
    for layer in perceiver.layers:
        resampling, feed_forward = cast(nn.ModuleList, layer)
        latents = _resample(cast(PerceiverAttention, resampling), latents, x, clips) + latents
        latents = feed_forward(latents) + latents
    return perceiver.norm(latents)


# [frames, clips]: 1 where a frame belongs to a clip; [clips, frames]: the weights of the mean over
# a clip.
_Means = tuple[Tensor, Tensor]


def _pointwise(convolution: nn.Module, x: Tensor) -> Tensor:
    """A convolution of width 1 as a matrix product: [frames, in] -> [frames, out]."""
    weight, bias = cast(Tensor, convolution.weight), cast(Tensor, convolution.bias)
    return F.linear(x, weight.squeeze(2), bias)


def _attention_block(block: AttentionBlock, x: Tensor, clips: VarlenLayout, means: _Means) -> Tensor:
    """`AttentionBlock.forward` of packed clips, [frames, width]."""
    normed = _group_norm(block.norm, x, clips, means)
    split = _pointwise(block.qkv, normed).view(len(x), block.heads, 3, -1)
    return normed + _pointwise(block.proj_out, _attend(split.transpose(1, 2), clips))


def _group_norm(norm: TimeGroupNorm, x: Tensor, clips: VarlenLayout, means: _Means) -> Tensor:
    """The group norm of packed clips: mean and variance of each group over the frames of its
    clip."""
    with torch.autocast(x.device.type, enabled=False):
        x = x.float()
        if not casting.launches_matter(x):
            return torch.cat([_normed_clip(norm, part) for part in x.split(clips.lengths)])
        normed: Tensor = _NormOfClips.apply(x, norm.weight, norm.bias, norm.num_groups, norm.eps, means)
        return normed


class _NormOfClips(torch.autograd.Function):
    """GroupNorm of each clip, [frames, width], with an explicit gradient, which takes a third of
    the operations of autograd's."""

    @staticmethod
    def forward(
        ctx: Context, x: Tensor, weight: Tensor, bias: Tensor, groups: int, eps: float, means: _Means
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
    def backward(ctx: Context, gradient: Tensor) -> tuple[Tensor | None, ...]:
        normed, scale, weight, member, share = ctx.saved_tensors
        normed_gradient = (gradient * weight).view_as(normed)
        along = normed_gradient * normed
        both = member @ (share @ torch.cat((normed_gradient.mean(2), along.mean(2)), 1))
        mean, slope = both.unsqueeze(2).chunk(2, 1)
        x_gradient = torch.addcmul(normed_gradient - mean, normed, slope, value=-1).mul_(scale)
        weight_gradient = (gradient * normed.flatten(1)).sum(0)
        return x_gradient.flatten(1), weight_gradient, gradient.sum(0), None, None, None


def _normed_clip(norm: TimeGroupNorm, x: Tensor) -> Tensor:
    """GroupNorm of one clip, [frames, width], passed as a channels-last image of one column, so
    that torch's kernel needs no copy."""
    image = x.t()[None, :, :, None]
    return F.group_norm(image, norm.num_groups, norm.weight, norm.bias, norm.eps)[0, :, :, 0].t()


def _attend(packed: Tensor, clips: VarlenLayout) -> Tensor:
    """Attention within each clip: [frames, 3, heads, head_width] -> [frames, width]."""
    if not casting.launches_matter(packed):
        queries, keys, values = (part.transpose(0, 1)[None] for part in packed.unbind(1))
        split = (part.split(clips.lengths, 2) for part in (queries, keys, values))
        mixed = torch.cat([_attend_in_clip(*part) for part in zip(*split, strict=True)], 2)
        return mixed[0].transpose(0, 1).flatten(1)
    mixed = F.scaled_dot_product_attention(*clips.into_grid(packed), clips.mask(packed))
    return clips.out_of_grid(mixed)


def _resample(module: PerceiverAttention, latents: Tensor, frames: Tensor, clips: VarlenLayout) -> Tensor:
    """The latents of each clip attend to themselves and to its frames: [clips, 32, width]."""
    queries = split_heads(module.to_q(latents))
    latent_keys, latent_values = (split_heads(part) for part in module.to_kv(latents).chunk(2, dim=-1))
    frame_keys, frame_values = (split_heads(part[None]) for part in module.to_kv(frames).chunk(2, dim=-1))
    if not casting.launches_matter(latents):
        split = (part.split(clips.lengths, 2) for part in (frame_keys, frame_values))
        of_clips = [
            _attend_in_clip(
                queries[clip : clip + 1],
                torch.cat((latent_keys[clip : clip + 1], keys), 2),
                torch.cat((latent_values[clip : clip + 1], values), 2),
            )
            for clip, (keys, values) in enumerate(zip(*split, strict=True))
        ]
        return module.to_out(torch.cat(of_clips).transpose(1, 2).flatten(2))
    keys = torch.cat((latent_keys, clips.pad(frame_keys)), 2)
    values = torch.cat((latent_values, clips.pad(frame_values)), 2)
    mixed = F.scaled_dot_product_attention(queries, keys, values, attn_mask=clips.mask(keys, NUM_LATENTS))
    return module.to_out(mixed.transpose(1, 2).flatten(2))


def _attend_in_clip(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    if queries.dtype == torch.float32:
        return F.scaled_dot_product_attention(queries, keys, values)
    return explicit_attention(queries, keys, values)
