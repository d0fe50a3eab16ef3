"""Gives free speech the pitch of the person.

A decoder learns from the codes of recordings, whose pitch is right. The GPT's own codes keep the
pitch of the people it was trained on: after 64 clips of CMU Arctic's slt, free speech was 16 % too
high, and no step of the learner could notice. So the GPT speaks some of the clips' texts, and the
vocoder's predicted pitch moves by the difference. Only a vocoder with an oscillator predicts one.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from xtts.inference.torch_backend import TorchUtterance, decode
from xtts.inference.voice import Voice
from xtts.model.loading import Model
from xtts.model.source_filter import SourceFilter
from xtts.model.vocoder import Vocoder
from xtts.workers.decoder_clips import SpokenClip

# Texts that are spoken, and the fewest that must end with a voiced sound.
TEXTS, FEWEST = 8, 3


@torch.no_grad()
def move_pitch(vocoder: Vocoder, model: Model, whose: Voice, clips: Sequence[SpokenClip], seed: int) -> float:
    """Moves the pitch that `vocoder` predicts by the returned number of octaves; by 0 without an
    oscillator, or if too few texts end."""
    decoder = vocoder.waveform_decoder
    if not isinstance(decoder, SourceFilter):
        return 0.0
    chosen = clips[:: math.ceil(len(clips) / TEXTS)]
    heights = []
    for clip, latents in zip(chosen, speak(model, whose, [clip.ids for clip in chosen], seed), strict=True):
        recorded = clip.sound.pitches[clip.sound.pitches > 0]
        if latents is None or not len(recorded):
            continue
        height, voicing = decoder.predicted_pitch(vocoder.latent_steps(latents[None]), whose.speaker)
        if (voicing > 0).any():
            heights.append((recorded.median().item(), height[voicing > 0].median().item()))
    if len(heights) < FEWEST:
        return 0.0
    octaves = sum(person - free for person, free in heights) / len(heights)
    decoder.pitch.last.bias[0] += octaves
    return octaves


def speak(model: Model, whose: Voice, texts: Sequence[Sequence[int]], seed: int) -> list[Tensor | None]:
    """The latents `[codes, width]` of each text's ids, sampled together; None for a text that does
    not end. Raises DecodingError."""
    pairs = []
    for number, ids in enumerate(texts):
        random = torch.Generator(model.device).manual_seed(seed + number)
        utterance = TorchUtterance(model.gpt, model.config.decoding, random)
        pairs.append((torch.tensor(ids, device=model.device), utterance))
    spoken = decode(model.gpt, whose.latents, pairs, len(pairs))
    return [
        torch.stack(list(utterance.latents[: len(utterance.codes)])).float()
        if utterance.stopped and utterance.codes
        else None
        for utterance in spoken
    ]
