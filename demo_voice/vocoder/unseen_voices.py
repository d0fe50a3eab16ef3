"""Latents after a fine-tune, for the vocoder: unseen voices, a fine-tuned GPT for each."""

import copy
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from demo_voice import stages
from demo_voice.gpt.batches import Lessons, references
from demo_voice.gpt.passages import alone
from demo_voice.gpt.pretraining import Pupil
from demo_voice.gpt.targets import Targets, encode
from demo_voice.recipe import ADVICE, BaseRecipe
from demo_voice.teachers.flite import RATE, TeacherSpeech
from demo_voice.teachers.timbre import Timbre
from train.optim import freezing

CLIPS, SPLIT = 60, 6
# As the demo's fine-tune goes, in fewer steps.
STEPS, LEARNING_RATE, WEIGHT_DECAY, TEXT_WEIGHT = 30, 3e-4, 0.01, 0.01
FROZEN = freezing.patterns(ADVICE.freeze or "")
# Pitch, formants and tempo together; a stranger's are none of the pseudo-speakers'.
SLOWEST, FASTEST = 0.85, 1.18


class StrangeSpeech(TeacherSpeech):
    """Some clips of a pseudo-speaker, played faster or slower through a filter."""

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
        # Through its spectrum: no filter has to be made for a factor that comes once.
        spectrum = torch.fft.rfft(wave)[: length // 2 + 1]
        played = torch.fft.irfft(spectrum, length) * (length / len(wave))
        return self.timbre.heard(played, rate)

    def samples(self, index: int) -> Tensor:
        """Samples [n] at 16 kHz."""
        return self.at(index, RATE)


def strange_targets(
    speech: TeacherSpeech, dvae: nn.Module, mel_stats: Tensor, known: Targets
) -> Targets:
    """Their codes and mels, made on the spot."""
    encoded = encode(speech, range(len(speech.clips)), dvae, mel_stats, at_once=20)
    counts = np.array([len(codes) for codes, _ in encoded])
    numbers = {clip.text: number for number, clip in enumerate(known.clips)}
    tokens = [known.tokens[numbers[clip.text]] for clip in speech.clips]
    return Targets(speech.clips, tokens, encoded, counts, known.silence)


@dataclass(frozen=True)
class Stranger:
    """A GPT that was fine-tuned on a voice of its own, that voice's lessons and its recordings."""

    pupil: Pupil
    lessons: Lessons
    speech: TeacherSpeech


def meet(
    number: int,
    pupil: Pupil,
    known: Lessons,
    speech: TeacherSpeech,
    dvae: nn.Module,
    recipe: BaseRecipe,
) -> Stranger:
    """Stranger `number`, always the same; `pupil` stays as it is."""
    draw = random.Random(f"strangers/{recipe.seed}/{number}")
    manner = draw.choice([name for name, own in known.references.items() if own])
    clips = known.short(manner)
    chosen = draw.sample(clips, min(CLIPS, len(clips)))
    strange = StrangeSpeech(speech, chosen, draw.uniform(SLOWEST, FASTEST), Timbre.drawn(draw))
    targets = strange_targets(strange, dvae, known.mel_stats, known.targets)
    alone = replace(recipe, pretrained=(manner,))
    lessons = Lessons(targets, references(strange, (manner,)), known.mel_stats, alone)
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
