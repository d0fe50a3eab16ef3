"""A recording of which every phone is known: flite's sentences with what a real tape has between
them."""

import itertools
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from demo_voice.teachers import flite, phone_timing
from demo_voice.teachers.flite import RATE, SpeakingStyle
from train.cutting.manuscript import said_words
from xtts.text.phonemes import to_phones

# What another person says between; the text has none of it.
OTHERS = (
    "It was a long way to the river and nobody had brought a map.",
    "Please remember to lock the garage before you leave tonight.",
    "The committee will publish its findings in the second week of March.",
)
# What is in the text and not in the recording.
UNSAID = (
    "The astronomers photographed a comet above the southern desert.",
    "Eleven violins were stolen from the concert hall in August.",
    "My grandmother never trusted the elevator in our building.",
    "A frozen lake is no place for a heavy truck.",
    "Cheap umbrellas rarely survive their second storm.",
)
PAUSE_SECONDS = (0.15, 1.6)
# Chance of what follows a sentence, each with those before it; else only its pause.
_MUSIC, _NOISE, _OTHER, _BREATH = itertools.accumulate((0.05, 0.05, 0.05, 0.10))
_SCALE = (0, 2, 4, 5, 7, 9, 12)


@dataclass(frozen=True)
class SpokenWord:
    """A word as it is said, with its begin and end in seconds."""

    text: str
    start: float
    end: float


@dataclass(frozen=True)
class KnownRecording:
    """samples: `[n]` at 16 kHz; phones: begin and end in seconds, of the speaker alone; text: what
    the speaker says, with the sentences of `UNSAID` in it."""

    samples: np.ndarray
    phones: list[tuple[float, float]]
    words: list[SpokenWord]
    text: str


def make(sentences: Sequence[str], voice: str, other: str, seed: int) -> KnownRecording:
    """The sentences one after the other, with pauses, and here and there a breath, noise, music or
    another person, over hum and hiss. Raises TeacherError."""
    draw, noise = random.Random(seed), np.random.default_rng(seed)
    parts, count = list[np.ndarray](), 0
    phones, words = list[tuple[float, float]](), list[SpokenWord]()
    for sentence in sentences:
        spoken = _spoken(sentence, voice)
        told = _phones(flite.phone_times(sentence, _manner(voice)), count / RATE)
        phones += told
        words += _words(sentence, told)
        added = [spoken, _between(draw, noise, other), _silence(draw.uniform(*PAUSE_SECONDS))]
        parts += added
        count += sum(map(len, added))
    whole = np.concatenate(parts)
    hum = 0.002 * np.sin(2 * np.pi * 50 * np.arange(len(whole)) / RATE)
    whole += (hum + 0.0005 * noise.standard_normal(len(whole))).astype(np.float32)
    return KnownRecording(whole, phones, words, " ".join(_with_unsaid(sentences)))


def _with_unsaid(sentences: Sequence[str]) -> list[str]:
    found = list(sentences)
    for number, wrong in enumerate(UNSAID, start=1):
        found.insert(number * len(sentences) // (len(UNSAID) + 1) + number - 1, wrong)
    return found


def _between(draw: random.Random, noise: np.random.Generator, other: str) -> np.ndarray:
    chance = draw.random()
    if chance < _MUSIC:
        return _music(draw, draw.uniform(2, 5))
    if chance < _NOISE:
        burst = noise.standard_normal(int(draw.uniform(0.5, 3) * RATE))
        return (0.03 * burst).astype(np.float32)
    if chance < _OTHER:
        return _spoken(draw.choice(OTHERS), other)
    if chance < _BREATH:
        count = int(0.4 * RATE)
        return (0.02 * np.hanning(count) * noise.standard_normal(count)).astype(np.float32)
    return _silence(0)


def _music(draw: random.Random, seconds: float) -> np.ndarray:
    """Decaying notes with overtones, two a second."""
    time = np.arange(int(seconds * RATE)) / RATE
    found = np.zeros(len(time))
    for begin in np.arange(0, seconds, 0.5):
        hertz = 220 * 2 ** (draw.choice(_SCALE) / 12)
        swell = np.exp(-3 * np.clip(time - begin, 0, None)) * (time >= begin)
        for strength, multiple in ((1.0, 1.0), (0.5, 2.0), (0.3, 1.5)):
            found += strength * swell * np.sin(2 * np.pi * multiple * hertz * time)
    return (0.1 * found).astype(np.float32)


def _manner(voice: str) -> SpeakingStyle:
    return SpeakingStyle(voice, voice, Fraction(1))


def _spoken(text: str, voice: str) -> np.ndarray:
    return flite.speak(text, _manner(voice)).astype(np.float32) / 32768


def _silence(seconds: float) -> np.ndarray:
    return np.zeros(int(seconds * RATE), np.float32)


def _phones(told: Sequence[tuple[str, float]], start: float) -> list[tuple[float, float]]:
    begins = [0.0, *(end for _, end in told)]
    return [
        (start + begin, start + end)
        for begin, (phone, end) in zip(begins, told)
        if phone != phone_timing.SILENCE
    ]


def _words(sentence: str, phones: Sequence[tuple[float, float]]) -> list[SpokenWord]:
    """Words get their share of flite's phones by how many the dictionary gives them."""
    words = said_words(sentence, "en")
    sizes = [max(len(re.sub(r"\W", "", to_phones(word))), 1) for word in words]
    bounds = np.rint(np.cumsum([0, *sizes]) / sum(sizes) * len(phones)).astype(int)
    return [
        SpokenWord(word, phones[first][0], phones[max(last, first + 1) - 1][1])
        for word, first, last in zip(words, bounds.clip(max=len(phones) - 1), bounds[1:])
    ]
