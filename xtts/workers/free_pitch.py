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

MAX_SPOKEN_TEXTS = 8
# Fewer texts that end and contain a voiced sound move nothing.
MIN_VOICED_TEXTS = 3


@torch.no_grad()
def move_pitch(vocoder: Vocoder, model: Model, voice: Voice, clips: Sequence[SpokenClip], seed: int) -> float:
    """Moves the pitch that `vocoder` predicts, and returns by how many octaves: 0 without an
    oscillator, or if too few texts end."""
    decoder = vocoder.waveform_decoder
    if not isinstance(decoder, SourceFilter):
        return 0.0
    spoken_clips = clips[:: math.ceil(len(clips) / MAX_SPOKEN_TEXTS)]
    all_latents = speak(model, voice, [clip.ids for clip in spoken_clips], seed)
    differences = []
    for clip, latents in zip(spoken_clips, all_latents, strict=True):
        recorded = clip.sound.pitches[clip.sound.pitches > 0]
        if latents is None or not len(recorded):
            continue
        predicted, voicing = decoder.predicted_pitch(vocoder.latent_steps(latents[None]), voice.speaker)
        if (voicing > 0).any():
            differences.append(recorded.median().item() - predicted[voicing > 0].median().item())
    if len(differences) < MIN_VOICED_TEXTS:
        return 0.0
    octaves = sum(differences) / len(differences)
    decoder.pitch.last.bias[0] += octaves
    return octaves


def speak(model: Model, voice: Voice, texts: Sequence[Sequence[int]], seed: int) -> list[Tensor | None]:
    """The latents `[codes, width]` of each text's ids, sampled together; None for a text that does
    not end. Raises DecodingError."""
    batch = []
    for number, ids in enumerate(texts):
        generator = torch.Generator(model.device).manual_seed(seed + number)
        utterance = TorchUtterance(model.gpt, model.config.decoding, generator)
        batch.append((torch.tensor(ids, device=model.device), utterance))
    utterances = decode(model.gpt, voice.latents, batch, len(batch))
    return [
        torch.stack(list(utterance.latents[: len(utterance.codes)])).float()
        if utterance.stopped and utterance.codes
        else None
        for utterance in utterances
    ]
