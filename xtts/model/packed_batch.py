"""Packs clips into a training batch, one row without padding: inputs, targets and layout.

    [ 32 conditioning | START t1 … tn (STOP) | START c1 … cm STOP STOP STOP ]
                        t1 … tn STOP           c1 … cm  STOP STOP STOP STOP     <- targets

Coqui puts text and audio at fixed columns and masks the gaps; the results are the same, because
positions are counted per part. Coqui masks the text STOP *input* in training, but feeds it when
speaking; `stop_input` is whether the model was trained with it.

All clips are in one row (`xtts.model.varlen`). Tokens are stored flat, and `*_slots` give their
positions in the row, so embeddings and heads run without a host-device synchronisation.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from xtts.model.shapes import NUM_LATENTS, GPTShape
from xtts.model.varlen import VarlenLayout

# ceil(samples / 1024) codes, then four STOP targets: Coqui's `code_lengths = … + 3`, plus one.
STOP_TARGETS = 4


@dataclass(frozen=True)
class PackedBatch:
    """A batch for `xtts.model.training`; all tensors may be moved with `to`.

    length: of the row; segments: the layout of the clips in it. conditioning: mel [clips, 80,
    frames], padded; frames: the layout of its clips. text_*, audio_*: flat tokens, their positions
    within their part and their slots in the row. *_targets, *_target_slots: targets, their slots.
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

    def to(self, device: torch.device | str) -> "PackedBatch":
        """The same rows on `device`; the copy is asynchronous."""
        return self._moved(lambda tensor: tensor.to(device, non_blocking=True))

    def pinned(self) -> "PackedBatch":
        """The same rows in pinned memory, from which a GPU can copy asynchronously."""
        return self._moved(lambda tensor: tensor.pin_memory())

    def _moved(self, move: Callable[[Tensor], Tensor]) -> "PackedBatch":
        moved: dict[str, Any] = {}
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                moved[name] = move(value)
            elif isinstance(value, VarlenLayout):
                moved[name] = value.moved(move)
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
    """Makes a batch of clips.

    tokens[i] [n], codes[i] [m], conditioning[i] [80, frames]. `unheard[i]` = (first, last + 1): the
    codes of clip i that are not targets, because its conditioning was cut from there.
    """
    lengths = [row_length(len(t), len(c), stop_input) for t, c in zip(tokens, codes, strict=True)]
    starts = [0, *itertools.accumulate(lengths)]
    text, audio = [], []
    for index, (tokens_of_clip, codes_of_clip) in enumerate(zip(tokens, codes, strict=True)):
        start = starts[index] + NUM_LATENTS
        silent = unheard[index] if unheard else (0, 0)
        inputs, targets = _text(tokens_of_clip, shape, stop_input)
        text.append(_places(start, inputs, targets))
        audio.append(_places(start + len(inputs), *_audio(codes_of_clip, shape), silent))
    latents = (torch.tensor(starts[:-1])[:, None] + torch.arange(NUM_LATENTS)).flatten()
    frames = [mel.shape[1] for mel in conditioning]
    segments, heard = VarlenLayout.of(lengths), VarlenLayout.of(frames)
    mels = pad_sequence([mel.float().T for mel in conditioning], batch_first=True).transpose(1, 2)
    return PackedBatch(starts[-1], segments, heard, mels, latents, *_flat(text), *_flat(audio))


def _text(tokens: Tensor, shape: GPTShape, stop_input: bool) -> tuple[Tensor, Tensor]:
    start, stop = tokens.new_tensor([shape.text_start]), tokens.new_tensor([shape.text_stop])
    inputs = torch.cat((start, tokens, stop) if stop_input else (start, tokens))
    # A STOP input is without a target, because the first audio id after it is always START.
    return inputs, torch.cat((tokens, stop))


def _audio(codes: Tensor, shape: GPTShape) -> tuple[Tensor, Tensor]:
    stops = codes.new_full((STOP_TARGETS,), shape.audio_stop)
    inputs = torch.cat((codes.new_tensor([shape.audio_start]), codes, stops[1:]))
    return inputs, torch.cat((codes, stops))


def _flat(parts: Sequence[tuple[Tensor, ...]]) -> Any:
    """Concatenates the five tensors that `_places` returns for each clip."""
    return [torch.cat(column) for column in zip(*parts, strict=True)]


def _places(
    start: int, inputs: Tensor, targets: Tensor, skip: tuple[int, int] = (0, 0)
) -> tuple[Tensor, ...]:
    """One part (text or audio) of a clip that starts at a slot: its inputs, their positions and
    slots; its targets, without those within `skip`, and their slots."""
    positions, aim = torch.arange(len(inputs)), torch.arange(len(targets))
    kept = (aim < skip[0]) | (aim >= skip[1])
    return (
        inputs.long(), positions, start + positions, targets.long()[kept], start + aim[kept]
    )  # fmt: skip
