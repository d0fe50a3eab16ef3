"""Trains a vocoder for one person and given GPT weights.

Training the GPT does not change how its latents sound, and the published vocoder makes a new person
sound like one of its training speakers. So the vocoder is trained on the person's clips: their
codes go through the GPT that will be served, and gradient descent on all vocoder weights minimizes
the spectral distance to the recording. The speaker embedding stays that of the recording, because
the layers that read it are trained too (docs/develop/evaluation.md, "The learned decoder").

A vocoder with an oscillator (`xtts.model.source_filter`) also learns the person's pitch. The sound
to compare has the pitch of the recording, since harmonics elsewhere would count as errors of the
filters.

Importing this module does not import torch.
"""

import random
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Any

from machine.errors import SotaqueError
from xtts.workers.requests import (
    DecoderLearned,
    LearnDecoderRequest,
    ReportProgress,
    TranscribedClip,
    no_progress,
)
from xtts.workers.tuned_model import TunedModel

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from xtts.inference.voice import Voice
    from xtts.model.loading import Model
    from xtts.model.vocoder import Vocoder

# Takes rows of (latents, pitches, samples) and returns a scalar.
Distance = Callable[[Any], Any]
STEPS, BATCH = 250, 4
LEARNING_RATE = 3e-4
MOST_NORM = 5.0
# The share of the trained weights in a blend with the initial ones. With 1, the spectrum is closer
# but the speech is harder to understand (benchmarks/record.md, "The learned decoder").
SHARE = 0.7
# A row is a segment of a clip, in codes of 46 ms. The context on both sides covers the reach of the
# convolutions; it is spoken but not compared.
SEGMENT_CODES, CONTEXT_CODES = 20, 2
ROW_CODES = SEGMENT_CODES + 2 * CONTEXT_CODES
PITCHES_PER_CODE = 4
# Every n-th clip is held out to judge the decoder.
HELD_OUT_EVERY = 8
FEWEST_CLIPS = 4
# The largest share of the time budget for preparing clips, apart from the first ones.
MOST_PREPARING = 0.25
FEWEST_PREPARED = 16

# The names of a weight's length and direction in torch since 2.1, and before.
_WEIGHT_NORM = re.compile(r"\.parametrizations\.weight\.original[01]$|\.weight_[gv]$")


class DecoderLearningError(SotaqueError):
    """Clips that cannot train a decoder."""


@dataclass(frozen=True)
class SpokenLatents:
    """A clip as the decoder learns it.

    Attributes:
        latents: The GPT's, for the clip's codes: `[1, codes, width]`.
        pitches: `[codes * PITCHES_PER_CODE]`, log2 of Hz; 0 if the measured one is uncertain.
        waveform: `[samples]` at 24,000 Hz.
    """

    latents: "Tensor"
    pitches: "Tensor"
    waveform: "Tensor"

    @property
    def codes(self) -> int:
        """The number of codes."""
        return self.latents.shape[1]


def learn(
    tuned: TunedModel, request: LearnDecoderRequest, progress: ReportProgress = no_progress
) -> DecoderLearned:
    """Trains a decoder for the requested weights and writes it to `request.out`. Does not use the
    global random state.

    Raises DecoderLearningError for too few clips, AudioError, TextError, DiskFull, WriteError, and
    the errors of runs and model.
    """
    import torch

    from xtts.model import dvae as codec
    from xtts.model import loading
    from xtts.voices import learned_decoder

    started = time.perf_counter()
    model, whose = tuned.speaking(tuned.reading(request.voice), request.voice)
    with torch.random.fork_rng(devices=[]):  # modules draw initial weights
        dvae = codec.load_dvae(tuned.base, model.config)
    until = started + MOST_PREPARING * request.budget_seconds
    spoken = []
    for number, clip in enumerate(request.clips):
        if number >= FEWEST_PREPARED and time.perf_counter() > until:
            break
        progress(0.0)
        if (latents := spoken_latents(model, whose, dvae, clip)) is not None:
            spoken.append(latents)
    held_out = spoken[::HELD_OUT_EVERY]
    learned_from = [one for number, one in enumerate(spoken) if number % HELD_OUT_EVERY]
    if len(learned_from) < FEWEST_CLIPS:
        raise DecoderLearningError(
            f"Training a decoder needs at least {FEWEST_CLIPS} clips of a suitable length; "
            f"{len(learned_from)} of {len(request.clips)} clips are suitable."
        )
    published = loading.read_tensors(tuned.base / "model.pth")
    learning = _laid_out(published, model)
    speaker = whose.speaker.detach().float().clone()
    # The distance needs FFTs, so it runs where the mels do: on the CPU if the GPU's FFT is faulty.
    distance = partial(_distance, learning, speaker, torch.device(tuned.compute.mel_device))
    before = _mean_distance(distance, held_out)
    if request.start is not None:
        start = learned_decoder.read_tensors(request.start)
        learning.load_state_dict(_laid_out(start, model).state_dict())
    steps, each = _descend(learning, distance, learned_from, request, started, progress)
    after = _mean_distance(distance, held_out)
    learned_decoder.write_tensors(request.out, published_names(learning, published))
    return DecoderLearned(
        distance_before=round(before, 4),
        distance_after=round(after, 4),
        clips=len(learned_from),
        steps=steps,
        seconds=time.perf_counter() - started,
        step_seconds=each,
    )


def _laid_out(state: "Mapping[str, Tensor]", model: "Model") -> "Vocoder":
    """The vocoder with the tensors of a `model.pth`, on the device of `model`. On a CPU, a step in
    channels-last order takes 0.8 of the published layout's time, and half with bfloat16."""
    import torch

    from xtts.model.vocoder import load_vocoder

    vocoder = load_vocoder(state, model.config).to(model.device)
    if model.device.type == "cpu":
        vocoder.lay_out(torch.float32)
    return vocoder


def published_names(vocoder: "Vocoder", like: "Mapping[str, Tensor]") -> "dict[str, Tensor]":
    """The vocoder's tensors on the CPU, by their names in a `model.pth` and in its layout. If
    `like`, the base's tensors, has weight norm, a weight becomes a direction and a length."""
    import torch

    from xtts.model.vocoder import WAVEFORM_DECODER

    own = {
        name: (tensor[:, :, 0] if tensor.ndim == 4 else tensor).detach().cpu()
        for name, tensor in vocoder.state_dict().items()
    }
    renamed = {}
    for name in like:
        if name.startswith(WAVEFORM_DECODER):
            inner = name.removeprefix("hifigan_decoder.")
            normed = _WEIGHT_NORM.search(inner)
            weight = own[f"{inner[: normed.start()]}.weight" if normed else inner]
            if normed and normed[0] in (".parametrizations.weight.original0", ".weight_g"):
                weight = torch.linalg.vector_norm(weight, dim=(1, 2), keepdim=True)
            renamed[name] = weight.contiguous()
    return renamed


def spoken_latents(
    model: "Model", whose: "Voice", dvae: "nn.Module", clip: TranscribedClip
) -> SpokenLatents | None:
    """The latents of a clip; None if it is too short, or longer than the model was trained on. As
    in training, the text is not split, because all of it was spoken in one clip."""
    import torch

    from xtts import audio
    from xtts.evaluation.pitch import pitch_course

    ids = model.tokenizer.encode(clip.text, clip.language)
    waveform = audio.read(clip.recording, audio.CODE_RATE)
    count = -(-len(waveform) // audio.SAMPLES_PER_CODE)
    most = model.config.gpt.max_audio_tokens
    fits = ROW_CODES <= count <= most
    if len(ids) > model.tokenizer.max_tokens or not fits:
        return None
    with torch.no_grad():
        # The DVAE runs only here, so it stays on the CPU with the mel.
        mel = audio.dvae_mel(waveform[None], model.mel_stats.cpu())
        codes = dvae.get_codebook_indices(mel)[0, :count]  # type: ignore[operator]
        latents = _forced(model, whose, ids, codes.to(model.device))
    pitches = pitch_course(
        waveform, audio.CODE_RATE, count * PITCHES_PER_CODE,
        audio.SAMPLES_PER_CODE / audio.CODE_RATE / PITCHES_PER_CODE,
    )  # fmt: skip
    sound = audio.read(clip.recording, audio.VOCODER_RATE).to(model.device)
    return SpokenLatents(latents, pitches.to(model.device), sound)


def _forced(model: "Model", whose: "Voice", ids: Sequence[int], codes: "Tensor") -> "Tensor":
    """Latents `[1, codes, width]` of given codes, as if they were decoded one by one."""
    import torch

    gpt = model.gpt
    prefix = gpt.prefix(whose.latents, torch.tensor(ids, device=model.device))
    inputs = torch.cat((codes.new_tensor([gpt.shape.audio_start]), codes[:-1]))
    positions = torch.arange(len(inputs), device=model.device)
    embedded = gpt.mel_embedding(inputs) + gpt.mel_pos_embedding(positions)
    hidden = gpt.final_norm(gpt.gpt(torch.cat((prefix, embedded[None]), dim=1)))
    return hidden[:, prefix.shape[1] :].float()


def _descend(
    learning: "Vocoder",
    distance: Distance,
    clips: Sequence[SpokenLatents],
    request: LearnDecoderRequest,
    started: float,
    progress: ReportProgress,
) -> tuple[int, float]:
    """Trains with Adam and a learning rate that falls to 0, then blends the result with the initial
    weights (`SHARE`). If the time budget is short, it takes fewer steps and the rate falls sooner.

    Returns the number of steps, and the seconds of each as in `DecoderLearned.step_seconds`.
    """
    import torch

    from xtts.eager_optimizer import eager

    learning.requires_grad_(True)
    weights = list(learning.parameters())
    begun_with = [weight.detach().clone() for weight in weights]
    optimizer = eager(torch.optim.Adam)(weights, lr=LEARNING_RATE)
    draw = random.Random(request.seed)
    left = request.budget_seconds - (time.perf_counter() - started)
    begun = time.perf_counter()
    step, steps, each = 0, request.steps if left > 0 else 0, 0.0
    while step < steps:
        if step == 1:  # the first step prepares kernels; the others take equally long
            begun = time.perf_counter()
        elif step > 1:
            each = (time.perf_counter() - begun) / (step - 1)
            steps = min(steps, max(step, int(left / each)))
        optimizer.param_groups[0]["lr"] = LEARNING_RATE * (1 - step / max(1, steps))
        optimizer.zero_grad()
        rows = [_drawn(clips, draw) for _ in range(BATCH)]
        distance(rows).backward()
        torch.nn.utils.clip_grad_norm_(weights, MOST_NORM)
        optimizer.step()
        step += 1
        # After the first step, the time of the others is still unknown.
        progress(step / steps if step > 1 or steps == 1 else 0.0)
    learning.requires_grad_(False)
    for learned, before in zip(weights, begun_with, strict=True):
        learned.copy_(torch.lerp(before, learned, SHARE))
    return step, each


def _drawn(clips: Sequence[SpokenLatents], draw: random.Random) -> "tuple[Tensor, Tensor, Tensor]":
    """Draws a row: latents `[1, codes, width]` including context, and the matching pitches and
    samples."""
    from xtts.audio import CODE_RATE, SAMPLES_PER_CODE, VOCODER_RATE

    clip = draw.choice(clips)
    first = draw.randrange(clip.codes - ROW_CODES + 1)
    per_code = SAMPLES_PER_CODE * VOCODER_RATE / CODE_RATE
    begin, end = round(first * per_code), round((first + ROW_CODES) * per_code)
    codes = slice(first, first + ROW_CODES)
    pitches = clip.pitches.unflatten(0, (-1, PITCHES_PER_CODE))[codes].flatten()
    return clip.latents[:, codes], pitches, clip.waveform[begin:end]


def _mean_distance(distance: Distance, clips: Sequence[SpokenLatents]) -> float:
    """The mean distance over whole clips."""
    import torch

    with torch.no_grad():
        return fmean(
            float(distance([(clip.latents, clip.pitches, clip.waveform)])) for clip in clips
        )


def _distance(
    vocoder: "Vocoder",
    speaker: "Tensor",
    device: "torch.device",
    rows: "Sequence[tuple[Tensor, Tensor, Tensor]]",
) -> "Tensor":
    """The distance between the decoder's sound and the recording, over rows of equal length
    (latents `[1, codes, width]`, pitches, samples), without their context; and, if the decoder
    predicts pitches, their L1 in octaves.

    Convolutions run in bfloat16 if this CPU supports it; weights and distance stay float32.
    """
    import torch

    from xtts.audio import CODE_RATE, SAMPLES_PER_CODE, VOCODER_RATE
    from xtts.evaluation.spectral_distance import spectral_distance
    from xtts.model.quantization import vocoder_type

    latents = torch.cat([latents for latents, _, _ in rows])
    quick = latents.device.type == "cpu" and vocoder_type() == torch.bfloat16
    with torch.autocast("cpu", torch.bfloat16, enabled=quick):
        pitches = torch.stack([pitches for _, pitches, _ in rows])
        waveform, off = _sounding(vocoder, latents, pitches, speaker.expand(len(rows), -1, -1))
    # A clip ends inside its last code, and a code is not a whole number of samples.
    length = min(waveform.shape[1], *(len(wanted) for _, _, wanted in rows))
    aside = round(CONTEXT_CODES * SAMPLES_PER_CODE * VOCODER_RATE / CODE_RATE)
    inside = slice(aside, length - aside)
    wanted = torch.stack([wanted[inside] for _, _, wanted in rows])
    return spectral_distance(waveform[:, inside].to(device), wanted.to(device)) + off.to(device)


def _sounding(
    vocoder: "Vocoder", latents: "Tensor", pitches: "Tensor", speaker: "Tensor"
) -> "tuple[Tensor, Tensor]":
    """The waveform `[rows, samples]` with the recordings' pitches if these are certain, and the L1
    of the predicted ones in octaves; 0 without an oscillator."""
    import torch

    from xtts.model.source_filter import SourceFilter, pitch_at_steps

    decoder = vocoder.waveform_decoder
    if not isinstance(decoder, SourceFilter):
        return vocoder(latents, speaker).float(), latents.new_zeros(())
    steps = vocoder.latent_steps(latents)
    height, voicing = (part.float() for part in decoder.predicted_pitch(steps))
    wanted, sure = pitch_at_steps(pitches, steps.shape[2])
    used = torch.where(sure > 0, wanted, height)
    voiced = (voicing.detach() > 0).float()
    waveform = vocoder.computed(decoder.excited(steps, (used, voiced)), speaker)
    off = ((height - wanted).abs() * sure).sum() / sure.sum().clamp(min=1)
    return waveform.float(), off
