"""A crowd of pseudo-people: teachers' voices at other pitches, sizes and paces, behind filters.

From a handful of people the GPT learns each one's codes by heart, and takes the codes of anybody
else for a dialect: 5.8 nats a code against 1.5. From some hundreds it has to learn to hear in the
recording which codes this person's phones come to. Called by `demo_voice.__main__`.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np
import torch

from demo_voice.teachers import flite, neighbours, phone_timing
from demo_voice.teachers.flite import RATE, SpeakingStyle
from demo_voice.teachers.timbre import RIPPLES, Timbre

SIZE = 240
PREFIX = "crowd-"
# Slower and brisker than the teacher, as people are.
PACES = (0.88, 1.14)
# Shifts are so many parts of 1: another rate costs seconds to make a filter for.
_STEPS = 40


@dataclass(frozen=True)
class _Source:
    """One teacher: its share of the crowd, the least and greatest `shift`, and a flite setting of
    its pitch with its least and greatest value."""

    voice: str
    share: float
    shifts: tuple[float, float]
    pitch: str = ""
    pitches: tuple[float, float] = (1.0, 1.0)


# Medians of pitch in Hz: slt 172, rms 104, kal16 90; where they stay between 75 and 260.
_SOURCES = (
    _Source("rms", 7, (0.85, 1.4)),
    _Source("slt", 7, (0.72, 1.12), "f0_shift", (0.75, 1.2)),
    _Source("kal16", 2, (0.95, 1.25), "int_f0_target_mean", (80.0, 190.0)),
    _Source("bdl", 3, (0.85, 1.3)),
    _Source("clb", 2, (0.75, 1.15)),
    _Source("en-US", 1, (0.8, 1.2)),
    _Source("en-GB", 1, (0.8, 1.2)),
)
_FLITE = {manner.voice for manner in flite.MANNERS}


def speak(text: str, manner: SpeakingStyle) -> np.ndarray:
    """`text` as int16 samples [n] at 16 kHz. Raises TeacherError."""
    own = flite.flite if manner.voice in _FLITE else neighbours.speak
    wave = torch.from_numpy(own(text, manner).astype(np.float32) / 32768)
    heard = _timbre(manner.name).heard(wave, RATE)
    return (heard.numpy() * 32767).astype(np.int16)


def told(text: str, manner: SpeakingStyle) -> list[tuple[str, float]]:
    """The phones of a clip with their ends in seconds. Raises TeacherError."""
    own = phone_timing.told_by_flite if manner.voice in _FLITE else neighbours.told
    return own(text, manner)


@cache
def _timbre(name: str) -> Timbre:
    draw = random.Random(f"timbre/{name}")
    return Timbre(tuple(draw.gauss(0.0, spread) for spread in RIPPLES))


def _drawn() -> Iterator[SpeakingStyle]:
    draw = random.Random("crowd/1")
    for number in range(SIZE):
        source = draw.choices(_SOURCES, [source.share for source in _SOURCES])[0]
        shift = Fraction(round(_within(draw, source.shifts) * _STEPS), _STEPS)
        settings = [f"duration_stretch={float(shift) * _within(draw, PACES):.3f}"]
        if source.pitch:
            settings.append(f"{source.pitch}={_within(draw, source.pitches):.3f}")
        yield SpeakingStyle(f"{PREFIX}{number:03d}", source.voice, shift, tuple(settings))


def _within(draw: random.Random, ends: tuple[float, float]) -> float:
    """As many below the geometric middle as above."""
    least, most = ends
    return float(least * (most / least) ** draw.random())


CROWD = tuple(_drawn())
