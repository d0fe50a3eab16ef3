"""Every moment of a recording: in a clip, or left out for a reason. Pure."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from train.cutting.pauses import SoundProfile, runs_of
from train.cutting.planning import UNSURE, LeftOut, PlannedClip
from train.cutting.speech import LEVEL_SECONDS, SILENT_DB, speech_spans

IN_A_CLIP, SILENCE, NOISE = "in a clip", "silence", "music or noise"
_ABOVE_BACKGROUND_DB = 12.0
_LOUDEST_SILENCE_DB = -45.0
# Shorter changes between silence, noise and speech are told as what is around them.
_SHORTEST_FRAMES = 30


@dataclass(frozen=True)
class AccountRow:
    """frames from `first` to before `last`, at the recording's own rate; text: what is said there,
    as far as it is known."""

    first: int
    last: int
    reason: str
    text: str = ""


def account(
    clips: Sequence[PlannedClip], left: Sequence[LeftOut], profile: SoundProfile, rate: int,
    frames: int,
) -> list[AccountRow]:  # fmt: skip
    """Rows that follow each other from frame 0 to `frames`."""
    kinds = [SILENCE, NOISE, UNSURE]
    labels = _background(profile)
    for start, end in speech_spans(profile.speech):
        labels[int(start / LEVEL_SECONDS) : int(end / LEVEL_SECONDS)] = 2
    texts = dict[int, str]()
    spoken: list[LeftOut | PlannedClip] = [*left, *clips]
    for one in spoken:
        # Each its own number, so that two neighbours stay two rows.
        labels[one.first : one.last] = len(kinds)
        texts[len(kinds)] = one.text
        kinds.append(one.reason if isinstance(one, LeftOut) else IN_A_CLIP)
    for begin, end in runs_of(labels == 2):
        # The margins of detected speech around a clip.
        if end - begin < _SHORTEST_FRAMES:
            labels[begin:end] = 0
    edges = [0, *(np.flatnonzero(np.diff(labels)) + 1), len(labels)]
    rows = list[AccountRow]()
    for begin, end in itertools.pairwise(edges):
        first, last = clip_frame(int(begin), rate), clip_frame(int(end), rate)
        last = frames if end == len(labels) else min(last, frames)
        if last > first:
            label = int(labels[begin])
            rows.append(AccountRow(first, last, kinds[label], texts.get(label, "")))
    return rows


def clip_frame(place: int, rate: int) -> int:
    """The frame of a recording at `place` times 10 ms."""
    return round(place * rate * LEVEL_SECONDS)


def _background(profile: SoundProfile) -> np.ndarray:
    """0 silence, 1 something that is heard, for each 10 ms."""
    levels = profile.level_db
    audible = levels[levels > SILENT_DB + 1]
    quiet = float(np.quantile(audible, 0.05)) if len(audible) else SILENT_DB
    limit = max(quiet + _ABOVE_BACKGROUND_DB, _LOUDEST_SILENCE_DB - 10)
    loud = (levels > limit).astype(np.int32)
    # A majority of 0.3 s: a click is no music.
    window = np.ones(_SHORTEST_FRAMES) / _SHORTEST_FRAMES
    smooth = np.convolve(loud, window, mode="same")[: len(loud)]
    found: np.ndarray = (smooth > 0.5).astype(np.int32)
    return found
