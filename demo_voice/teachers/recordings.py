"""Real people: recordings with transcripts from a folder, divided at pauses into phrases.

The folder has a table `metadata.csv` with lines `path|person|words`. A person with little speech is
also played at other rates, which move pitch, formants and pace together. Each rate counts as a
further person.
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
from demo_voice.teachers.hibari import (
    PHONES_PER_CODE,
    PITCHES_PER_CODE,
    RATE,
    UNKNOWN_PHONE,
    Spoken,
    play_faster,
)
from xtts import audio
from xtts.evaluation.pitch import pitch_course
from xtts.model.shapes import CODE_RATE, SAMPLES_PER_CODE

# Relative to the recorded rate.
FURTHER_RATES = (0.87, 0.93, 1.08, 1.16)
# A person with less speech is also played at the further rates.
MIN_PERSON_SECONDS = 60.0
# A phrase ends at the first pause after MIN_SECONDS.
MIN_SECONDS, MAX_SECONDS = 2.5, 13.5
# Outside of these rates, words and sound do not fit each other.
MIN_PHONES_PER_SECOND, MAX_PHONES_PER_SECOND = 5.0, 22.0
# A pause fits a punctuation mark if the shares of the speech before it, in sound and in phones,
# differ by at most this.
MAX_SHARE_DIFFERENCE = 0.05
_FRAME_SECONDS, _MIN_PAUSE_SECONDS = 0.01, 0.12
_MARGIN_SECONDS = 0.1


@dataclass(frozen=True)
class Phrase:
    """A person's samples `[n]` at 24 kHz with their words."""

    person: str
    words: str
    samples: Tensor


def read(folder: Path) -> Iterator[Phrase]:
    """All phrases of a folder, further rates included. Raises AudioError, OSError."""
    phrases_of: dict[str, list[Phrase]] = {}
    with (folder / "metadata.csv").open(encoding="utf-8", newline="") as table:
        for path, person, words in csv.reader(table, delimiter="|", quoting=csv.QUOTE_NONE):
            samples = trim(audio.read(folder / path, RATE))
            phrases = [Phrase(person, text, trim(part)) for part, text in split_at_pauses(samples, words)]
            phrases_of.setdefault(person, []).extend(phrases)
    for person, phrases in phrases_of.items():
        yield from phrases
        if sum(len(phrase.samples) for phrase in phrases) < MIN_PERSON_SECONDS * RATE:
            for factor in FURTHER_RATES:
                for phrase in phrases:
                    samples = torch.from_numpy(play_faster(phrase.samples.numpy(), factor))
                    yield Phrase(f"{person}@{factor}", phrase.words, samples)


def to_clip(phrase: Phrase) -> Spoken:
    """A phrase with measured pitches and unknown phones."""
    samples = 0.7 * phrase.samples / phrase.samples.abs().max().clamp(min=1e-3)
    num_codes = -(-len(samples) * CODE_RATE // (RATE * SAMPLES_PER_CODE))
    seconds = SAMPLES_PER_CODE / CODE_RATE / PITCHES_PER_CODE
    pitches = pitch_course(samples, RATE, num_codes * PITCHES_PER_CODE, seconds)
    return Spoken(
        (samples * 32767).short().numpy(),
        pitches.view(num_codes, PITCHES_PER_CODE).half().numpy(),
        torch.full((num_codes, PHONES_PER_CODE), UNKNOWN_PHONE, dtype=torch.uint8).numpy(),
    )


def split_at_pauses(samples: Tensor, words: str) -> list[tuple[Tensor, str]]:
    """Phrases of a recording `[n]` at 24 kHz, cut at pauses that fit a punctuation mark of its words.

    Leaves out phrases with implausible words, and recordings with figures in their words, which have
    no phones.
    """
    if re.search(r"\d", words):
        return []
    hop, is_speech = int(_FRAME_SECONDS * RATE), _find_speech(samples)
    speech_share = is_speech.float().cumsum(0) / is_speech.sum().clamp(min=1)
    phrases, start, start_frame = [], 0, 0
    for end, end_frame in [*_match_pauses(words, speech_share, is_speech), (len(words), len(is_speech))]:
        if (end_frame - start_frame) * _FRAME_SECONDS >= MIN_SECONDS or end == len(words):
            phrases.append((samples[start_frame * hop : end_frame * hop], words[start:end].strip()))
            start, start_frame = end, end_frame
    return [(part, text) for part, text in phrases if _is_plausible(len(part) / RATE, text)]


def _match_pauses(words: str, speech_share: Tensor, is_speech: Tensor) -> list[tuple[int, int]]:
    """The end of each punctuation mark that a pause fits, in characters, and the frame of that pause.
    speech_share: the share of the speech until each frame."""
    num_phones, pauses = len(token_ids(words)), _find_pauses(is_speech)
    matches: list[tuple[int, int]] = []
    for mark in re.finditer(r"[,.;:?!]\"?(?=\s)", words):
        phone_share = len(token_ids(words[: mark.end()])) / num_phones
        differences = {pause: abs(float(speech_share[pause]) - phone_share) for pause in pauses}
        best = min(pauses, key=differences.__getitem__, default=None)
        if best is not None and differences[best] < MAX_SHARE_DIFFERENCE:
            matches.append((mark.end(), best))
    return matches


def _is_plausible(seconds: float, words: str) -> bool:
    if not 1.0 <= seconds <= MAX_SECONDS or not words:
        return False
    return MIN_PHONES_PER_SECOND < len(token_ids(words)) / seconds < MAX_PHONES_PER_SECOND


def _find_speech(samples: Tensor) -> Tensor:
    """Whether each frame of 10 ms contains speech, `[frames]`."""
    hop = int(_FRAME_SECONDS * RATE)
    level = samples[: len(samples) // hop * hop].view(-1, hop).square().mean(1).sqrt()
    return level > 0.06 * level.quantile(0.95)


def _find_pauses(is_speech: Tensor) -> list[int]:
    """The middle frames of the pauses between speech."""
    changes = torch.nonzero(is_speech[1:] != is_speech[:-1]).flatten() + 1
    return [
        (start + end) // 2
        for start, end in itertools.pairwise(changes.tolist())
        if not is_speech[start] and (end - start) * _FRAME_SECONDS >= _MIN_PAUSE_SECONDS
    ]


def trim(samples: Tensor) -> Tensor:
    """A recording `[n]` at 24 kHz with a tenth of a second of silence at both ends."""
    frames = torch.nonzero(_find_speech(samples)).flatten()
    if not len(frames):
        return samples
    hop, margin = int(_FRAME_SECONDS * RATE), int(_MARGIN_SECONDS * RATE)
    return samples[max(0, int(frames[0]) * hop - margin) : (int(frames[-1]) + 1) * hop + margin]
