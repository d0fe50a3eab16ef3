"""Trains the vocoder, first on mels and then on the GPT's latents.

Mels need no GPT, so both can be trained at the same time; only the first layer is replaced between
the two.
"""

import copy
import itertools
import random
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from demo_voice import stages
from demo_voice.gpt.batches import Lessons, references
from demo_voice.gpt.passages import alone
from demo_voice.gpt.pretraining import Pupil
from demo_voice.gpt.targets import MEL_PER_CODE, Targets, encode
from demo_voice.recipe import ADVICE, BaseRecipe, StageSchedule
from demo_voice.speaker_encoder import load as load_listener
from demo_voice.stages import Workplace
from demo_voice.teachers.flite import RATE, TeacherSpeech
from demo_voice.teachers.people import GROUP_OF
from demo_voice.teachers.timbre import Timbre
from train.optim import freezing
from xtts.audio import CODE_RATE, SAMPLES_PER_CODE, SPEAKER_RATE, VOCODER_RATE
from xtts.evaluation.spectral_distance import spectral_distance
from xtts.model.vocoder import SpeakerEncoder, Vocoder

# Codes in a segment (1.2 s). The loss ignores some codes at each end, which lack context.
SEGMENT_CODES, UNJUDGED_CODES = 26, 3
MARGIN = round(UNJUDGED_CODES * SAMPLES_PER_CODE * VOCODER_RATE / CODE_RATE)
# Rows of the GPT that `tune` computes at once, and the number of segments from each.
SEGMENTS_PER_ROW = 2
# The share of the rows in which the clip follows others, so that late positions are trained too.
BEHIND_OTHERS = 0.4
# The relative frequency of each of `people.GROUPS`; a group without clips leaves its share to the
# others.
SHARES = (0.55, 0.2, 0.25)
# Longer clips are left out: a step costs as much as its longest rows.
MOST_CODES = 90
STRANGER_CLIPS, SPLIT = 60, 6
# As in the fine-tune of the demo, with fewer steps.
STEPS, LEARNING_RATE, WEIGHT_DECAY, TEXT_WEIGHT = 30, 3e-4, 0.01, 0.01
FROZEN = freezing.patterns(ADVICE.freeze or "")
# Shifts of pitch, formants and tempo together, which no pseudo-speaker has.
SLOWEST, FASTEST = 0.85, 1.18


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


# inputs [batch, codes, channels], speakers [batch, 512, 1], wanted sound [batch, samples] at 24 kHz
Segments = tuple[Tensor, Tensor, Tensor]


class Draws:
    """Draws clips of `manners` with more than `fewest` codes; each pseudo-speaker is equally
    likely, however many clips it has."""

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
        """Draws `count` clips; a clip may be drawn more than once."""
        return draw.choices(self._clips, cum_weights=self._weights, k=count)


class Ear:
    """Speaker embeddings of pseudo-speakers, and the audio of clips."""

    def __init__(
        self, speech: TeacherSpeech, encoder: SpeakerEncoder, device: torch.device
    ) -> None:
        self.speech = speech
        self.encoder = encoder
        self.device = device
        self._known: dict[int, Tensor] = {}

    @torch.inference_mode()
    def speaker(self, manner: str, draw: random.Random) -> Tensor:
        """An embedding [512, 1] from one of 20 clips of a pseudo-speaker."""
        index = draw.choice(self.speech.by_manner[manner][:20])
        if index not in self._known:
            wave = self.speech.at(index, SPEAKER_RATE)
            self._known[index] = self.encoder(wave[None])[0].cpu()
        return self._known[index].clone()

    def heard(
        self, index: int, first: int, draw: random.Random, timbre: Timbre
    ) -> tuple[Tensor, Tensor]:
        """The speaker embedding [512, 1] of a segment that starts at the code `first`, and its
        samples at 24 kHz, both in this timbre."""
        speaker = self.speaker(self.speech.clips[index].manner, draw)
        wave = self.speech.at(index, VOCODER_RATE)
        start = round(first * SAMPLES_PER_CODE * VOCODER_RATE / CODE_RATE)
        length = round(SEGMENT_CODES * SAMPLES_PER_CODE * VOCODER_RATE / CODE_RATE)
        wave = F.pad(wave, (0, max(0, start + length - len(wave))))
        return speaker, timbre.heard(wave[start : start + length], VOCODER_RATE)


@dataclass(frozen=True)
class Stranger:
    """A GPT fine-tuned on an artificial voice, with that voice's batches and recordings, to
    simulate a user's fine-tune."""

    pupil: Pupil
    lessons: Lessons
    speech: TeacherSpeech


def _mel_segments(
    targets: Targets, draws: Draws, mel_stats: Tensor, ear: Ear, count: int, step: int
) -> Segments:
    draw = random.Random(f"vocoder/{step}")
    segments = []
    for index in draws.some(draw, count):
        first = draw.randint(0, int(targets.counts[index]) - SEGMENT_CODES)
        timbre = Timbre.drawn(draw)
        mels = timbre.mels(targets.mels(index)[first : first + SEGMENT_CODES], mel_stats)
        segments.append((mels, *ear.heard(index, first, draw, timbre)))
    return _stacked(segments)


@torch.no_grad()
def _latent_segments(
    pupil: Pupil, lessons: Lessons, draws: Draws, ear: Ear, count: int, step: int
) -> Segments:
    """Segments of latents that the GPT computes from the true codes."""
    draw = random.Random(f"tuning/{step}")
    clips = draws.some(draw, max(1, count // SEGMENTS_PER_ROW))
    rows = [
        lessons.behind_others(clip, draw) if draw.random() < BEHIND_OTHERS else alone([clip])[0]
        for clip in clips
    ]
    lesson = lessons.batch(rows, f"tuning/{step}", timbred=True).to(ear.device)
    with stages.low_precision(ear.device):
        hidden = pupil.hidden(lesson).float()
    slots = lesson.rows.audio_slots
    segments = []
    for row, clip in enumerate(clips):
        codes = int(lessons.targets.counts[clip])
        before = lessons.passages.num_codes(rows[row]) - codes
        own = slots[slots // lesson.rows.length == row][before:]
        for _ in range(SEGMENTS_PER_ROW):
            first = draw.randint(0, codes - SEGMENT_CODES)
            latents = hidden[own[first : first + SEGMENT_CODES]]
            segments.append((latents, *ear.heard(clip, first, draw, lesson.timbres[row])))
    return _stacked(segments)


def _stacked(rows: Sequence[Segments]) -> Segments:
    inputs, speakers, wanted = (torch.stack(column) for column in zip(*rows, strict=True))
    return inputs, speakers, wanted


def learn_from_mels(
    at: Workplace, speech: TeacherSpeech, targets: Targets, mel_stats: Tensor
) -> None:
    """Writes `vocoder.pt` (the vocoder behind its widening layer)."""
    torch.manual_seed(at.recipe.seed)
    net = MelVocoder(new(at.recipe), at.recipe.gpt.width).to(at.device)
    ear = Ear(speech, load_listener(at.folder, at.recipe).to(at.device), at.device)
    stage = at.recipe.vocoder
    draws = Draws(targets, {clip.manner for clip in targets.clips}, SEGMENT_CODES)

    def segments(step: int) -> Segments:
        return _mel_segments(targets, draws, mel_stats, ear, stage.batch, step)

    _learn(net, stage, at.folder / "vocoder.pt", segments, at.device)


def tune(
    at: Workplace, speech: TeacherSpeech, lessons: Lessons, pupil: Pupil, dvae: nn.Module
) -> None:
    """Writes `tuning.pt` (the vocoder for this GPT's latents)."""
    recipe, stage = at.recipe, at.recipe.tuning
    torch.manual_seed(recipe.seed)
    net = MelVocoder(new(recipe), recipe.gpt.width)
    stages.resumed(at.folder / "vocoder.pt", {"net": net})
    vocoder = net.vocoder
    read_latents(vocoder.waveform_decoder.conv_pre, net.widen, pupil.mel_head)
    vocoder = vocoder.to(at.device)
    encoder = load_listener(at.folder, recipe).to(at.device)
    known = Stranger(pupil, lessons, speech)

    # Alternates between some steps with the GPT as it is and some with a fine-tuned one.
    @lru_cache(maxsize=1)
    def met(number: int) -> tuple[Stranger, Draws, Ear]:
        if number % 2 == 0:
            # The GPT may still be training in parallel, so its newest weights are read.
            stages.resumed(at.folder / "pretraining.pt", {"pupil": pupil})
            one = known
        else:
            one = meet(number, pupil, lessons, speech, dvae, recipe)
        draws = Draws(one.lessons.targets, one.lessons.references, SEGMENT_CODES)
        return one, draws, Ear(one.speech, encoder, at.device)

    def segments(step: int) -> Segments:
        one, draws, ear = met(step // recipe.steps_with_one)
        return _latent_segments(one.pupil, one.lessons, draws, ear, stage.batch, step)

    _learn(vocoder, stage, at.folder / "tuning.pt", segments, at.device)


@torch.no_grad()
def read_latents(first: Any, widen: nn.Linear, mel_head: nn.Linear) -> None:
    """Changes the vocoder's first convolution from widened mels to latents. The mel head predicts a
    code's mel from its latent and the next. All three maps are linear, so together they are one
    convolution, except for its outermost tap. The tuning starts from this."""
    taps = first.weight  # [out, width, 7]
    now, after = (widen.weight @ part for part in mel_head.weight.chunk(2, dim=1))
    # The next code is 1.09 steps away: between the first and the second step to the right.
    far = VOCODER_RATE / CODE_RATE - 1
    whole = torch.einsum("oik,ij->ojk", taps, now)
    late = torch.einsum("oik,ij->ojk", taps, after)
    whole[:, :, 1:] += (1 - far) * late[:, :, :-1]
    whole[:, :, 2:] += far * late[:, :, :-2]
    first.bias += taps.sum(2) @ (widen.weight @ mel_head.bias + widen.bias)
    first.weight.copy_(whole)


def _learn(
    net: nn.Module,
    stage: StageSchedule,
    path: Path,
    segments: Callable[[int], Segments],
    device: torch.device,
) -> None:
    def losses(part: Segments) -> tuple[Tensor, Tensor]:
        inputs, speaker, wanted = (one.to(device) for one in part)
        with stages.low_precision(device):
            sound = net(inputs, speaker).float()
        end = min(sound.shape[1], wanted.shape[1]) - MARGIN
        loss = spectral_distance(sound[:, MARGIN:end], wanted[:, MARGIN:end])
        return loss, loss

    stages.learn(
        path,
        stage,
        {"net": net, "optimizer": optimizer(net, stage)},
        losses,
        lambda means: f"STFT {means[0]:.4f}",
        prepare=segments,
        clip=(net, 5.0),
    )


def optimizer(net: nn.Module, stage: StageSchedule) -> torch.optim.Optimizer:
    """The optimizer of the vocoder."""
    return torch.optim.AdamW(net.parameters(), lr=stage.learning_rate, betas=(0.8, 0.99))


def new(recipe: BaseRecipe) -> Vocoder:
    """A vocoder with random weights."""
    return Vocoder(recipe.gpt.width, recipe.speaker_encoder.embedding_width, recipe.vocoder_shape)


def load(folder: Path, recipe: BaseRecipe) -> Vocoder:
    """The learned vocoder."""
    vocoder = new(recipe)
    stages.resumed(folder / "tuning.pt", {"net": vocoder})
    return vocoder.eval().requires_grad_(False)


class StrangeSpeech(TeacherSpeech):
    """Some clips of a pseudo-speaker, played faster or slower and filtered."""

    def __init__(
        self, speech: TeacherSpeech, indices: Sequence[int], factor: float, timbre: Timbre
    ):
        self.speech = speech
        self.indices = tuple(indices)
        self.factor = factor
        self.timbre = timbre
        self.clips = [
            replace(clip, length=int(clip.length / factor))
            for clip in (speech.clips[index] for index in indices)
        ]

    def at(self, index: int, rate: int) -> Tensor:
        """All samples [n] of clip `index` at `rate`."""
        wave = self.speech.samples(self.indices[index])
        length = int(len(wave) * rate / (RATE * self.factor))
        # Resampled through its spectrum, which needs no resampling filter for a factor used once.
        spectrum = torch.fft.rfft(wave)[: length // 2 + 1]
        played = torch.fft.irfft(spectrum, length) * (length / len(wave))
        return self.timbre.heard(played, rate)

    def samples(self, index: int) -> Tensor:
        """Samples [n] at 16 kHz."""
        return self.at(index, RATE)


def strange_targets(
    speech: TeacherSpeech, dvae: nn.Module, mel_stats: Tensor, known: Targets
) -> Targets:
    """The codes and mels of an artificial voice's clips."""
    encoded = encode(speech, range(len(speech.clips)), dvae, mel_stats, at_once=20)
    counts = np.array([len(codes) for codes, _ in encoded])
    numbers = {clip.text: number for number, clip in enumerate(known.clips)}
    tokens = [known.tokens[numbers[clip.text]] for clip in speech.clips]
    return Targets(speech.clips, tokens, encoded, counts, known.silence)


def meet(
    number: int,
    pupil: Pupil,
    known: Lessons,
    speech: TeacherSpeech,
    dvae: nn.Module,
    recipe: BaseRecipe,
) -> Stranger:
    """The artificial voice of that number, the same on every call. `pupil` is not changed."""
    draw = random.Random(f"strangers/{recipe.seed}/{number}")
    manner = draw.choice([name for name, own in known.references.items() if own])
    clips = known.short(manner)
    chosen = draw.sample(clips, min(STRANGER_CLIPS, len(clips)))
    strange = StrangeSpeech(speech, chosen, draw.uniform(SLOWEST, FASTEST), Timbre.drawn(draw))
    targets = strange_targets(strange, dvae, known.mel_stats, known.targets)
    of_one = replace(recipe, pretrained=(manner,))
    lessons = Lessons(targets, references(strange, (manner,)), known.mel_stats, of_one)
    return Stranger(_fine_tuned(pupil, lessons, number, recipe), lessons, strange)


def _fine_tuned(pupil: Pupil, lessons: Lessons, number: int, recipe: BaseRecipe) -> Pupil:
    learning = copy.deepcopy(pupil).requires_grad_(True)
    freezing.freeze(learning.gpt, FROZEN)
    device = next(learning.parameters()).device
    weights = [weight for weight in learning.gpt.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(
        weights, lr=LEARNING_RATE, betas=(0.9, 0.96), weight_decay=WEIGHT_DECAY, fused=True
    )
    draw = random.Random(f"strangers/{recipe.seed}/{number}/order")
    for step in range(min(STEPS, recipe.tuning.steps)):
        group = draw.sample(range(len(lessons.targets.clips)), min(SPLIT, len(lessons.heard)))
        lesson = lessons.batch(alone(group), f"stranger/{number}/{step}").to(device)
        with stages.low_precision(device):
            losses = learning.losses(lesson)
        (losses["audio"] + TEXT_WEIGHT * losses["text"]).backward()
        nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return learning.eval().requires_grad_(False)
