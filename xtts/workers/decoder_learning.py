"""Trains a vocoder for one person and given GPT weights.

Training the GPT does not change how its latents sound, and the published vocoder makes a new person
sound like one of its training speakers. So the vocoder is trained on the person's clips: their
codes go through the GPT that will be served, and the vocoder learns to decode the latents into the
recordings (`xtts.workers.decoder_learner`). The speaker embedding stays that of the recording,
because the layers that read it are trained too (docs/develop/evaluation.md, "The learned decoder").

A request continues from the state that an earlier one wrote, so an epoch's decoder continues from
that of the epoch before. Importing this module does not import torch.
"""

import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from machine.errors import SotaqueError
from machine.storage.files import replace_file
from xtts.workers.decoder_clips import SpokenClip
from xtts.workers.decoder_schedule import LEARNING_RATE
from xtts.workers.requests import DecoderLearned, LearnDecoderRequest, ReportProgress, no_progress
from xtts.workers.tuned_model import TunedModel

if TYPE_CHECKING:
    from torch import Tensor

    from xtts.model.loading import Model
    from xtts.model.vocoder import Vocoder
    from xtts.workers.decoder_learner import DecoderLearner

# One of this number of clips is held out to judge the decoder.
CLIPS_PER_HELD_OUT = 8
MAX_HELD_OUT_CLIPS = 8
# With the one that is held out. With four clips, readers came 22 and 33 % of the way (docs/develop/log.md).
MIN_CLIPS = 3

# The names of a weight's length and direction in torch since 2.1, and before.
_WEIGHT_NORM = re.compile(r"\.parametrizations\.weight\.original[01]$|\.weight_[gv]$")


class DecoderLearningError(SotaqueError):
    """Clips that cannot train a decoder."""


def learn(
    tuned: TunedModel, request: LearnDecoderRequest, progress: ReportProgress = no_progress
) -> DecoderLearned:
    """Trains a decoder for the requested weights and writes it to `request.out`, and the state to
    continue from to `request.state_out`. Does not use the global random state.

    Raises DecoderLearningError for too few clips, TextError, DiskFull, WriteError, and the errors
    of runs and model.
    """
    import torch

    from xtts.model import loading
    from xtts.model.discriminators import read_discriminators
    from xtts.voices import learned_decoder
    from xtts.workers.decoder_learner import DecoderLearner
    from xtts.workers.free_pitch import move_pitch

    started = time.perf_counter()
    model, voice = tuned.load_voice(*tuned.read_reference(request.voice), request.voice)
    with torch.random.fork_rng(devices=[]):  # modules draw initial weights
        load_dvae = partial(loading.load_dvae, tuned.base, model.config)
        spoken = tuned.clips.spoken_clips(model, voice, load_dvae, request.clips, progress)
        discriminators = read_discriminators(tuned.base)
    if len(spoken) < MIN_CLIPS:
        raise DecoderLearningError(
            f"Training a decoder needs at least {MIN_CLIPS} clips of a suitable length; "
            f"{len(spoken)} of {len(request.clips)} clips are suitable."
        )
    held_out, training_clips = split_held_out(spoken)
    base_tensors = loading.read_tensors(tuned.base / "model.pth")
    learner = DecoderLearner(
        _load_vocoder(base_tensors, model),
        discriminators,
        voice.speaker,
        tuned.compute.mel_device,
        seed=request.seed,
        rate=model.config.training.decoder_rate or LEARNING_RATE,
    )
    base_distance = learner.distance(learner.average, held_out)
    if request.state is not None:
        learner.restore(torch.load(request.state, map_location="cpu", weights_only=True))
    first_step = learner.step
    check_progress = partial(learner.check_progress, held_out, base_distance)
    step_seconds = _train(learner, training_clips, check_progress, request, started, progress)
    if request.state_out is not None:
        replace_file(request.state_out, partial(torch.save, learner.state()))
    vocoder = learner.average
    if request.strength < 1:
        _weaken(vocoder, _load_vocoder(base_tensors, model), request.strength)
    distance = learner.distance(vocoder, held_out)
    octaves = move_pitch(vocoder, model, voice, spoken, request.seed)
    learned_decoder.write_tensors(request.out, to_published(vocoder, base_tensors))
    return DecoderLearned(
        distance_before=round(base_distance, 4),
        distance_after=round(distance, 4),
        clips=len(training_clips),
        steps=learner.step,
        new_steps=learner.step - first_step,
        seconds=time.perf_counter() - started,
        step_seconds=step_seconds,
        pitch_octaves=round(octaves, 4),
    )


def split_held_out(clips: Sequence[SpokenClip]) -> tuple[list[SpokenClip], list[SpokenClip]]:
    """The held-out clips, and the training clips."""
    every = max(CLIPS_PER_HELD_OUT, math.ceil(len(clips) / MAX_HELD_OUT_CLIPS))
    return list(clips[::every]), [clip for number, clip in enumerate(clips) if number % every]


def _train(
    learner: "DecoderLearner",
    clips: Sequence[SpokenClip],
    check_progress: Callable[[], None],
    request: LearnDecoderRequest,
    started: float,
    progress: ReportProgress,
) -> float:
    """Trains until the requested step, the end of the time limit, or until held-out clips stop
    improving. Returns the seconds of a step as in `DecoderLearned.step_seconds`."""
    first_step, max_seconds = learner.step, request.budget_seconds
    last_step = math.inf if request.steps is None else max(request.steps, first_step + request.min_steps)
    if max_seconds is not None:
        learner.checks_since_best = 0  # a time limit is a request to continue
    total_steps = last_step - first_step + learner.warm_up_steps - learner.warm_up_done
    steps_taken, timed_since, step_seconds = 0, time.perf_counter(), 0.0
    while learner.step < last_step and not learner.finished:
        seconds = time.perf_counter() - started
        if max_seconds is not None and seconds + step_seconds >= max_seconds:
            break
        if steps_taken == 1:  # the first step prepares kernels; the others take equally long
            timed_since = time.perf_counter()
        elif steps_taken > 1:
            step_seconds = (time.perf_counter() - timed_since) / (steps_taken - 1)
        step_before = learner.step
        learner.learn(clips)
        steps_taken += 1
        if learner.step > step_before:
            check_progress()
        progress(min(1.0, max(steps_taken / total_steps, seconds / max_seconds if max_seconds else 0.0)))
    return step_seconds


def _weaken(vocoder: "Vocoder", base: "Vocoder", strength: float) -> None:
    """Moves a learned vocoder back towards the base's; weight norm is folded in both."""
    import torch

    with torch.no_grad():
        for learned, of_base in zip(vocoder.parameters(), base.parameters(), strict=True):
            learned.lerp_(of_base, 1 - strength)


def _load_vocoder(state: "Mapping[str, Tensor]", model: "Model") -> "Vocoder":
    """The vocoder with the tensors of a `model.pth`, on the device of `model`. On a CPU, a step in
    channels-last order takes 0.8 of the published layout's time, and half with bfloat16."""
    import torch

    from xtts.model.vocoder import load_vocoder

    vocoder = load_vocoder(state, model.config).to(model.device)
    if model.device.type == "cpu":
        vocoder.lay_out(torch.float32)
    return vocoder


def to_published(vocoder: "Vocoder", base_tensors: "Mapping[str, Tensor]") -> "dict[str, Tensor]":
    """The vocoder's tensors on the CPU, with the names and layout of the base's `model.pth`. If the
    base has weight norm, a weight becomes a direction and a length."""
    import torch

    from xtts.model.vocoder import WAVEFORM_DECODER

    tensors = {
        name: (tensor[:, :, 0] if tensor.ndim == 4 else tensor).detach().cpu()
        for name, tensor in vocoder.state_dict().items()
    }
    published = {}
    for name in base_tensors:
        if name.startswith(WAVEFORM_DECODER):
            our_name = name.removeprefix("hifigan_decoder.")
            normed = _WEIGHT_NORM.search(our_name)
            weight = tensors[f"{our_name[: normed.start()]}.weight" if normed else our_name]
            if normed and normed[0] in (".parametrizations.weight.original0", ".weight_g"):
                weight = torch.linalg.vector_norm(weight, dim=(1, 2), keepdim=True)
            published[name] = weight.contiguous()
    return published
