"""Real people: recordings with transcripts from a folder, divided at pauses into phrases.

The folder has a table `metadata.csv` with lines `path|person|words`. A person with little speech is
also played at other rates, which moves pitch, formants and pace together, and so counts as further
persons.
"""

import csv
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from demo_voice.speech import token_ids
from demo_voice.teachers.hibari import PHONES_PER_CODE, PITCHES_PER_CODE, RATE, UNKNOWN_PHONE, Spoken, played
from xtts import audio
from xtts.evaluation.pitch import pitch_course
from xtts.model.shapes import CODE_RATE, SAMPLES_PER_CODE

PLAYED_AT = (0.87, 0.93, 1.08, 1.16)
LITTLE_SECONDS = 60.0
# Seconds of a phrase: the next pause after the first ends it.
MIN_SECONDS, MAX_SECONDS = 2.5, 13.5
# Phones a second outside of which words and sound do not fit each other.
PLAUSIBLE = (5.0, 22.0)
# A pause fits a punctuation mark if the shares of the speech before it, in sound and in phones,
# differ by at most this.
FITS = 0.05
_FRAME, _MIN_PAUSE = 0.01, 0.12
_MARGIN = 0.1


@dataclass(frozen=True)
class Phrase:
    """A person's samples `[n]` at 24 kHz with their words."""

    person: str
    words: str
    samples: Tensor


def read(folder: Path) -> Iterator[Phrase]:
    """All phrases of a folder, further rates included. Raises AudioError, OSError."""
    by_person: dict[str, list[Phrase]] = {}
    with (folder / "metadata.csv").open(encoding="utf-8", newline="") as table:
        for path, person, words in csv.reader(table, delimiter="|", quoting=csv.QUOTE_NONE):
            samples = trimmed(audio.read(folder / path, RATE))
            phrases = [Phrase(person, text, trimmed(part)) for part, text in divided(samples, words)]
            by_person.setdefault(person, []).extend(phrases)
    for person, phrases in by_person.items():
        yield from phrases
        if sum(len(phrase.samples) for phrase in phrases) < LITTLE_SECONDS * RATE:
            for factor in PLAYED_AT:
                for phrase in phrases:
                    samples = torch.from_numpy(played(phrase.samples.numpy(), factor))
                    yield Phrase(f"{person}@{factor}", phrase.words, samples)


def spoken(phrase: Phrase) -> Spoken:
    """A phrase with measured pitches and unknown phones."""
    samples = 0.7 * phrase.samples / phrase.samples.abs().max().clamp(min=1e-3)
    codes = -(-len(samples) * CODE_RATE // (RATE * SAMPLES_PER_CODE))
    seconds = SAMPLES_PER_CODE / CODE_RATE / PITCHES_PER_CODE
    pitches = pitch_course(samples, RATE, codes * PITCHES_PER_CODE, seconds)
    return Spoken(
        (samples * 32767).short().numpy(),
        pitches.view(codes, PITCHES_PER_CODE).half().numpy(),
        torch.full((codes, PHONES_PER_CODE), UNKNOWN_PHONE, dtype=torch.uint8).numpy(),
    )


def divided(samples: Tensor, words: str) -> list[tuple[Tensor, str]]:
    """Phrases of a recording `[n]` at 24 kHz, cut at pauses that fit a punctuation mark of its
    words; those with implausible words are left out, and recordings with figures in their words,
    which have no phones."""
    if re.search(r"\d", words):
        return []
    hop, sounds = int(_FRAME * RATE), _loud(samples)
    total, share = len(token_ids(words)), sounds.float().cumsum(0) / sounds.sum().clamp(min=1)
    pauses = _pauses(sounds)
    ends: list[tuple[int, int]] = []
    for mark in re.finditer(r"[,.;:?!]\"?(?=\s)", words):
        before = len(token_ids(words[: mark.end()])) / total
        fitting = [pause for pause in pauses if abs(float(share[pause]) - before) < FITS]
        if fitting:
            ends.append((mark.end(), min(fitting, key=lambda at: abs(float(share[at]) - before))))
    phrases, began, first = [], 0, 0
    for letters, frame in [*ends, (len(words), len(sounds))]:
        if (frame - first) * _FRAME >= MIN_SECONDS or letters == len(words):
            phrases.append((samples[first * hop : frame * hop], words[began:letters].strip()))
            began, first = letters, frame
    return [(part, text) for part, text in phrases if _plausible(len(part) / RATE, text)]


def _plausible(seconds: float, words: str) -> bool:
    if not 1.0 <= seconds <= MAX_SECONDS or not words:
        return False
    return PLAUSIBLE[0] < len(token_ids(words)) / seconds < PLAUSIBLE[1]


def _loud(samples: Tensor) -> Tensor:
    """Whether each frame of 10 ms contains speech, `[frames]`."""
    hop = int(_FRAME * RATE)
    level = samples[: len(samples) // hop * hop].view(-1, hop).square().mean(1).sqrt()
    return level > 0.06 * level.quantile(0.95)


def _pauses(sounds: Tensor) -> list[int]:
    """The middle frames of the pauses between speech."""
    changes = torch.nonzero(sounds[1:] != sounds[:-1]).flatten() + 1
    edges = changes.tolist()
    return [
        (start + end) // 2
        for start, end in itertools.pairwise(edges)
        if not sounds[start] and (end - start) * _FRAME >= _MIN_PAUSE
    ]


def trimmed(samples: Tensor) -> Tensor:
    """A recording `[n]` at 24 kHz with a tenth of a second of silence at both ends."""
    loud = torch.nonzero(_loud(samples)).flatten()
    if not len(loud):
        return samples
    hop, margin = int(_FRAME * RATE), int(_MARGIN * RATE)
    return samples[max(0, int(loud[0]) * hop - margin) : (int(loud[-1]) + 1) * hop + margin]
