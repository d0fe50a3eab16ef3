"""Trains the vocoder: first from mels, then from the GPT's latents.

Mels need no GPT, so both can be trained at the same time; only the first layer is exchanged in
between. Called by `demo_voice.__main__`.
"""

import itertools
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from demo_voice import stages
from demo_voice.gpt.batches import Lessons
from demo_voice.gpt.passages import alone
from demo_voice.gpt.pretraining import Pupil
from demo_voice.gpt.targets import MEL_PER_CODE, Targets
from demo_voice.recipe import BaseRecipe, StageSchedule
from demo_voice.speaker_encoder import load as load_listener
from demo_voice.teachers.flite import TeacherSpeech
from demo_voice.teachers.people import GROUP_OF
from demo_voice.teachers.timbre import Timbre
from demo_voice.vocoder import unseen_voices
from demo_voice.vocoder.unseen_voices import Stranger
from xtts.audio import CODE_RATE, SAMPLES_PER_CODE, SPEAKER_RATE, VOCODER_RATE
from xtts.evaluation.spectral_distance import spectral_distance
from xtts.model.vocoder import SpeakerEncoder, Vocoder

# Codes in a segment: 1.2 s. So many at either end are heard but not judged: they lack context.
SEGMENT_CODES, UNJUDGED_CODES = 26, 3
MARGIN = round(UNJUDGED_CODES * SAMPLES_PER_CODE * VOCODER_RATE / CODE_RATE)
# Rows of the GPT that are computed at once for `tune`, and how many segments each gives.
SEGMENTS_PER_ROW = 2
# Share of the rows in which the clip stands behind others: late places' latents sound, too.
BEHIND_OTHERS = 0.4
# How often each of `people.GROUPS` is drawn beside the others; who is not there leaves it to them.
SHARES = (0.55, 0.2, 0.25)
# Longer clips are left out: a step costs as much as its longest rows.
MOST_CODES = 90


class MelVocoder(nn.Module):
    """The vocoder behind a layer that widens the mel frames of a code to the GPT's width."""

    def __init__(self, vocoder: Vocoder, width: int) -> None:
        super().__init__()
        self.widen = nn.Linear(MEL_PER_CODE, width)
        self.vocoder = vocoder

    def forward(self, mels: Tensor, speaker: Tensor) -> Tensor:
        """Mels [batch, codes, 320], speaker [batch, 512, 1] -> [batch, samples] at 24 kHz."""
        waveform: Tensor = self.vocoder(self.widen(mels), speaker)
        return waveform


@dataclass(frozen=True)
class VocoderSegments:
    """inputs [batch, codes, channels], speaker [batch, 512, 1], wanted [batch, samples] 24 kHz."""

    inputs: Tensor
    speaker: Tensor
    wanted: Tensor


class Draws:
    """Clips of `manners` with more than `fewest` codes; who has few counts as much as who has
    many."""

    def __init__(self, targets: Targets, manners: Collection[str], fewest: int) -> None:
        self._clips = [
            index
            for index, clip in enumerate(targets.clips)
            if fewest < targets.counts[index] < MOST_CODES and clip.manner in manners
        ]
        groups = [GROUP_OF[targets.clips[index].manner] for index in self._clips]
        sizes = Counter(groups)
        weights = (SHARES[group] / sizes[group] for group in groups)
        self._weights = list(itertools.accumulate(weights))

    def some(self, draw: random.Random, count: int) -> list[int]:
        """So many clips, some perhaps more than once."""
        return draw.choices(self._clips, cum_weights=self._weights, k=count)


class Ear:
    """Speaker embeddings of pseudo-speakers, and the sound of clips."""

    def __init__(
        self, speech: TeacherSpeech, encoder: SpeakerEncoder, device: torch.device
    ) -> None:
        self.speech = speech
        self.encoder = encoder
        self.device = device
        self._clips: dict[str, list[int]] = {}
        for index, clip in enumerate(speech.clips):
            self._clips.setdefault(clip.manner, []).append(index)
        self._known: dict[int, Tensor] = {}

    @torch.inference_mode()
    def speaker(self, manner: str, draw: random.Random) -> Tensor:
        """An embedding [512, 1] from one of 20 clips of a pseudo-speaker."""
        index = draw.choice(self._clips[manner][:20])
        if index not in self._known:
            wave = self.speech.at(index, SPEAKER_RATE)
            self._known[index] = self.encoder(wave[None])[0].cpu()
        return self._known[index].clone()

    def sound(self, index: int, first: int, count: int) -> Tensor:
        """Samples at 24 kHz of `count` codes of a clip from `first` on."""
        wave = self.speech.at(index, VOCODER_RATE)
        start = round(first * SAMPLES_PER_CODE * VOCODER_RATE / CODE_RATE)
        length = round(count * SAMPLES_PER_CODE * VOCODER_RATE / CODE_RATE)
        wave = F.pad(wave, (0, max(0, start + length - len(wave))))
        return wave[start : start + length]


def _mel_segments(
    targets: Targets, draws: Draws, mel_stats: Tensor, ear: Ear, count: int, step: int
) -> VocoderSegments:
    draw = random.Random(f"vocoder/{step}")
    inputs, speakers, wanted = [], [], []
    for index in draws.some(draw, count):
        first = draw.randint(0, int(targets.counts[index]) - SEGMENT_CODES)
        timbre = Timbre.drawn(draw)
        inputs.append(timbre.mels(targets.mels(index)[first : first + SEGMENT_CODES], mel_stats))
        speakers.append(ear.speaker(targets.clips[index].manner, draw))
        wanted.append(timbre.heard(ear.sound(index, first, SEGMENT_CODES), VOCODER_RATE))
    return VocoderSegments(torch.stack(inputs), torch.stack(speakers), torch.stack(wanted))


@torch.no_grad()
def _latent_segments(
    pupil: Pupil, lessons: Lessons, draws: Draws, ear: Ear, count: int, step: int
) -> VocoderSegments:
    """Latents as they are when the GPT reads the true codes."""
    draw = random.Random(f"tuning/{step}")
    clips = draws.some(draw, max(1, count // SEGMENTS_PER_ROW))
    rows = [
        lessons.behind_others(clip, draw) if draw.random() < BEHIND_OTHERS else alone([clip])[0]
        for clip in clips
    ]
    lesson = lessons.batch(rows, f"tuning/{step}", timbred=True)
    lesson = replace(lesson, rows=lesson.rows.to(ear.device))
    with stages.low_precision(ear.device):
        hidden = pupil.hidden(lesson).float()
    slots = lesson.rows.audio_slots
    inputs, speakers, wanted = [], [], []
    for row, clip in enumerate(clips):
        codes = int(lessons.targets.counts[clip])
        before = lessons.passages.num_codes(rows[row]) - codes
        own = slots[slots // lesson.rows.length == row][before:]
        for _ in range(SEGMENTS_PER_ROW):
            first = draw.randint(0, codes - SEGMENT_CODES)
            inputs.append(hidden[own[first : first + SEGMENT_CODES]])
            speakers.append(ear.speaker(lessons.targets.clips[clip].manner, draw))
            sound = ear.sound(clip, first, SEGMENT_CODES)
            wanted.append(lesson.timbres[row].heard(sound, VOCODER_RATE))
    return VocoderSegments(torch.stack(inputs), torch.stack(speakers), torch.stack(wanted))


def learn_from_mels(
    recipe: BaseRecipe,
    speech: TeacherSpeech,
    targets: Targets,
    mel_stats: Tensor,
    folder: Path,
    device: torch.device,
) -> None:
    """Writes `vocoder.pt` (the vocoder behind its widening layer) into `folder`."""
    torch.manual_seed(recipe.seed)
    net = MelVocoder(new(recipe), recipe.gpt.width).to(device)
    ear = Ear(speech, load_listener(folder, recipe).to(device), device)
    stage = recipe.vocoder
    draws = Draws(targets, {clip.manner for clip in targets.clips}, SEGMENT_CODES)
    _learn(
        net, net, stage, folder / "vocoder.pt",
        lambda step: _mel_segments(targets, draws, mel_stats, ear, stage.batch, step), device,
    )  # fmt: skip


def tune(
    recipe: BaseRecipe, speech: TeacherSpeech, lessons: Lessons, pupil: Pupil, dvae: nn.Module,
    folder: Path, device: torch.device,
) -> None:  # fmt: skip
    """Writes `tuning.pt` (the vocoder for this GPT's latents) into `folder`."""
    torch.manual_seed(recipe.seed)
    net = MelVocoder(new(recipe), recipe.gpt.width)
    stages.resumed(folder / "vocoder.pt", {"net": net})
    vocoder = net.vocoder
    read_latents(vocoder.waveform_decoder.conv_pre, net.widen, pupil.mel_head)
    vocoder = vocoder.to(device)
    encoder = load_listener(folder, recipe).to(device)
    known = Stranger(pupil, lessons, speech)
    stage = recipe.tuning

    # The GPT as it is, for some steps, then as somebody fine-tuned it, in turns.
    @lru_cache(maxsize=1)
    def met(number: int) -> tuple[Stranger, Draws, Ear]:
        if number % 2 == 0:
            # The GPT may still be learning beside us: its newest weights, or the same again.
            stages.resumed(folder / "pretraining.pt", {"pupil": pupil})
            one = known
        else:
            one = unseen_voices.meet(number, pupil, lessons, speech, dvae, recipe)
        draws = Draws(one.lessons.targets, one.lessons.references, SEGMENT_CODES)
        return one, draws, Ear(one.speech, encoder, device)

    def segments(step: int) -> VocoderSegments:
        one, draws, ear = met(step // recipe.steps_with_one)
        return _latent_segments(one.pupil, one.lessons, draws, ear, stage.batch, step)

    _learn(vocoder, vocoder, stage, folder / "tuning.pt", segments, device)


@torch.no_grad()
def read_latents(first: Any, widen: nn.Linear, mel_head: nn.Linear) -> None:
    """Makes the vocoder's first convolution, which reads widened mels, read latents instead: the
    head says which mel they mean, from a code's latent and the one after it. All three are linear,
    so they are one convolution, but for its farthest tap; learning begins from there."""
    taps = first.weight  # [out, width, 7]
    now, after = (widen.weight @ part for part in mel_head.weight.chunk(2, dim=1))
    # The next code is 1.09 steps on: between the first step to the right and the second.
    far = VOCODER_RATE / CODE_RATE - 1
    whole = torch.einsum("oik,ij->ojk", taps, now)
    late = torch.einsum("oik,ij->ojk", taps, after)
    whole[:, :, 1:] += (1 - far) * late[:, :, :-1]
    whole[:, :, 2:] += far * late[:, :, :-2]
    first.bias += taps.sum(2) @ (widen.weight @ mel_head.bias + widen.bias)
    first.weight.copy_(whole)


def _learn(
    net: nn.Module,
    speak: Callable[[Tensor, Tensor], Tensor],
    stage: StageSchedule,
    path: Path,
    segments: Callable[[int], VocoderSegments],
    device: torch.device,
) -> None:
    mover = optimizer(net, stage)
    parts: dict[str, stages.Stateful] = {"net": net, "optimizer": mover}
    losses: list[float] = []
    counter: Iterator[int] = stages.steps(
        path, stage, parts, [mover],
        lambda _: f"STFT {stages.recent_mean(losses):.4f}",
    )  # fmt: skip
    for part in stages.ahead(segments, counter, stage.steps):
        with stages.low_precision(device):
            found = speak(part.inputs.to(device), part.speaker.to(device)).float()
        length = min(found.shape[1], part.wanted.shape[1])
        wanted = part.wanted.to(device)[:, MARGIN : length - MARGIN]
        loss = spectral_distance(found[:, MARGIN : length - MARGIN], wanted)
        mover.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        mover.step()
        losses.append(float(loss.detach()))


def optimizer(net: nn.Module, stage: StageSchedule) -> torch.optim.Optimizer:
    """Which one a vocoder learns with."""
    return torch.optim.AdamW(net.parameters(), lr=stage.learning_rate, betas=(0.8, 0.99))


def new(recipe: BaseRecipe) -> Vocoder:
    """A vocoder with random weights."""
    return Vocoder(recipe.gpt.width, recipe.speaker_encoder.embedding_width, recipe.vocoder_shape)


def load(folder: Path, recipe: BaseRecipe) -> Vocoder:
    """The learned vocoder."""
    vocoder = new(recipe)
    stages.resumed(folder / "tuning.pt", {"net": vocoder})
    return vocoder.eval().requires_grad_(False)
