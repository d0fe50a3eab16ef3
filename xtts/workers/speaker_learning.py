"""Learns the speaker embedding with which the vocoder comes nearest to a person's own recordings.

The speaker encoder hears a stranger as one of those whom it knows, and no training of XTTS moves it
or the vocoder; but of all embeddings there is one with which the frozen vocoder speaks the frozen
GPT's latents most as the person did. 512 numbers are learned by gradient descent, on the spectral
distance of the person's clips, spoken from their own codes. It costs some 60 steps of the vocoder,
and no code (docs/evaluation.md, "The learned speaker embedding").

Importing this module imports no torch.
"""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from machine.errors import SotaqueError
from xtts.workers.requests import LearnSpeakerRequest, SpeakerLearned, TranscribedClip
from xtts.workers.tuned_model import TunedModel

if TYPE_CHECKING:
    from torch import Tensor, nn

    from xtts.inference.voice import Voice
    from xtts.model.loading import Model

BATCH = 4
LEARNING_RATE = 0.02
# Of the way to what was learned, as far is gone: all of it is nearer to the person by the spectrum,
# and less well understood (docs/benchmarks.md, "The learned speaker embedding").
SHARE = 0.5
# Of a clip, in codes of 46 ms, as much a row: what an embedding colours is there in any second.
SEGMENT_CODES = 24
# Of the clips that are given, one in so many only judges.
HELD_OUT_EVERY = 8
FEWEST_CLIPS = 4


class SpeakerLearningError(SotaqueError):
    """Clips that no embedding can be learned from."""


@dataclass(frozen=True)
class SpokenLatents:
    """A clip as the GPT would say it: latents `[1, codes, width]` of its own codes, and its sound
    `[samples]` at 24,000 Hz."""

    latents: "Tensor"
    waveform: "Tensor"

    @property
    def codes(self) -> int:
        """How many it has."""
        return self.latents.shape[1]

    def segment(self, first: int, count: int) -> "tuple[Tensor, Tensor]":
        """Latents `[1, count, width]` from one code on, and the samples that belong to them."""
        from xtts.audio import CODE_RATE, SAMPLES_PER_CODE, VOCODER_RATE

        per_code = SAMPLES_PER_CODE * VOCODER_RATE / CODE_RATE
        begin, end = round(first * per_code), round((first + count) * per_code)
        return self.latents[:, first : first + count], self.waveform[begin:end]


def learn(tuned: TunedModel, request: LearnSpeakerRequest) -> SpeakerLearned:
    """Learns an embedding for some weights. Draws from no global random state.

    Raises SpeakerLearningError for too few clips, AudioError, TextError, and the errors of runs and
    model.
    """
    import torch

    from xtts.inference import voice
    from xtts.model.vocoder import load_dvae

    started = time.perf_counter()
    reading = tuned.reading(request.weights)
    reference = voice.read_reference(reading.config, request.reference)
    model, whose = tuned.speaking(reading, reference, request.weights, request.share)
    with torch.random.fork_rng(devices=[]):  # a module draws numbers before it has its own
        dvae = load_dvae(tuned.base, model.config)
    spoken = [
        found for clip in request.clips if (found := _latents(model, whose, dvae, clip)) is not None
    ]
    held_out = spoken[::HELD_OUT_EVERY]
    learned_from = [one for number, one in enumerate(spoken) if number % HELD_OUT_EVERY]
    if len(learned_from) < FEWEST_CLIPS:
        raise SpeakerLearningError(
            f"A speaker embedding is learned from at least {FEWEST_CLIPS} clips of a length "
            f"that the model learns from; of {len(request.clips)} there are {len(learned_from)}."
        )
    before = _mean_distance(model, held_out, whose.speaker)
    learned, steps = _descend(model, whose.speaker, learned_from, request, started)
    embedding = whose.speaker.float().lerp(learned, SHARE)
    return SpeakerLearned(
        embedding=[float(value) for value in embedding.flatten().tolist()],
        distance_before=round(before, 4),
        distance_after=round(_mean_distance(model, held_out, embedding), 4),
        clips=len(learned_from),
        steps=steps,
        seconds=time.perf_counter() - started,
    )


def _latents(
    model: "Model", whose: "Voice", dvae: "nn.Module", clip: TranscribedClip
) -> SpokenLatents | None:
    """None for a clip that is too short, or longer than the model has learned from. Its text is
    read as in training, whole: what it may have more than a piece of speech (`split`) was said."""
    import torch

    from xtts import audio

    ids = model.tokenizer.encode(clip.text, clip.language)
    waveform = audio.read(clip.recording, audio.CODE_RATE)
    count = -(-len(waveform) // audio.SAMPLES_PER_CODE)
    most = model.config.gpt.max_audio_tokens
    if len(ids) > model.tokenizer.max_tokens or not SEGMENT_CODES <= count <= most:
        return None
    with torch.no_grad():
        # The DVAE codes where the mel is taken: on the CPU, once.
        mel = audio.dvae_mel(waveform[None], model.mel_stats.cpu())
        codes = dvae.get_codebook_indices(mel)[0, :count]  # type: ignore[operator]
        latents = _forced(model, whose, ids, codes.to(model.device))
    sound = audio.read(clip.recording, audio.VOCODER_RATE).to(model.device)
    return SpokenLatents(latents, sound)


def _forced(model: "Model", whose: "Voice", ids: Sequence[int], codes: "Tensor") -> "Tensor":
    """Latents `[1, codes, width]` of codes that are given, as decoding them one by one makes."""
    import torch

    gpt = model.gpt
    prefix = gpt.prefix(whose.latents, torch.tensor(ids, device=model.device))
    inputs = torch.cat((codes.new_tensor([gpt.shape.audio_start]), codes[:-1]))
    positions = torch.arange(len(inputs), device=model.device)
    embedded = gpt.mel_embedding(inputs) + gpt.mel_pos_embedding(positions)
    hidden = gpt.final_norm(gpt.gpt(torch.cat((prefix, embedded[None]), dim=1)))
    return hidden[:, prefix.shape[1] :].float()


def _descend(
    model: "Model",
    start: "Tensor",
    clips: Sequence[SpokenLatents],
    request: LearnSpeakerRequest,
    started: float,
) -> "tuple[Tensor, int]":
    """Adam with a rate that falls to nothing, from the recording's own embedding."""
    import torch

    model.vocoder.requires_grad_(False)
    # What the encoder made in inference mode cannot be learned from.
    embedding = start.detach().float().clone().requires_grad_(True)
    optimizer = torch.optim.Adam([embedding], lr=LEARNING_RATE)
    draw = random.Random(request.seed)
    begun, step = time.perf_counter(), 0
    for step in range(1, request.steps + 1):
        done = time.perf_counter()
        each = (done - begun) / max(1, step - 1)
        if done - started + each > request.budget_seconds:
            return embedding.detach(), step - 1
        optimizer.param_groups[0]["lr"] = LEARNING_RATE * (1 - (step - 1) / request.steps)
        optimizer.zero_grad()
        rows = [_drawn(clips, draw) for _ in range(BATCH)]
        _distance(model, rows, embedding).backward()
        optimizer.step()
    return embedding.detach(), step


def _drawn(clips: Sequence[SpokenLatents], draw: random.Random) -> "tuple[Tensor, Tensor]":
    clip = draw.choice(clips)
    return clip.segment(draw.randrange(clip.codes - SEGMENT_CODES + 1), SEGMENT_CODES)


def _mean_distance(model: "Model", clips: Sequence[SpokenLatents], embedding: "Tensor") -> float:
    import torch

    with torch.no_grad():
        whole = [clip.segment(0, clip.codes) for clip in clips]
        return fmean(float(_distance(model, [one], embedding.clone())) for one in whole)


def _distance(
    model: "Model", rows: "Sequence[tuple[Tensor, Tensor]]", embedding: "Tensor"
) -> "Tensor":
    """Of rows of as many codes each, (latents `[1, codes, width]`, samples)."""
    import torch

    from xtts.evaluation.spectral_distance import spectral_distance

    latents = torch.cat([latents for latents, _ in rows])
    found = model.vocoder(latents, embedding.expand(len(rows), -1, -1)).float()
    # A clip ends inside its last code, and codes are no whole number of samples.
    length = min(found.shape[1], *(len(wanted) for _, wanted in rows))
    wanted = torch.stack([wanted[:length] for _, wanted in rows])
    return spectral_distance(found[:, :length], wanted)
