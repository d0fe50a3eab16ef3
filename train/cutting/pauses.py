"""Pauses between words: where nothing is heard, by level and by speech detection together."""

from dataclasses import dataclass

import numpy as np

from train.cutting.speech import LEVEL_SECONDS, VAD_SECONDS

SHORTEST_PAUSE_SECONDS = 0.12
# Before the first word of a breath and behind its last one, where no word can be cut in two.
SHORTEST_EDGE_SECONDS = 0.04
# A recogniser's word ends are that far off.
_REACH_SECONDS = 0.12
MARGIN_SECONDS, WIDE_MARGINS_SECONDS = 0.15, (0.3, 0.45)
# Quiet is nearer to the background than to speech.
_ABOVE_BACKGROUND_DB, _BELOW_SPEECH_DB = 9.0, 24.0
_SURELY_NO_SPEECH = 0.15
# What is quiet is judged anew every 5 s.
_WINDOW = 500


@dataclass(frozen=True)
class SoundProfile:
    """What was measured along a recording. level_db: each 10 ms; speech: probability, each 32 ms;
    clipped: each 10 ms, whether full scale was reached twice in a row."""

    level_db: np.ndarray
    speech: np.ndarray
    clipped: np.ndarray

    def background_db(self, start: float, end: float) -> float:
        """The quietest twentieth of the ten seconds around."""
        first = max(int((start - 5) / LEVEL_SECONDS), 0)
        around = self.level_db[first : int((end + 5) / LEVEL_SECONDS) + 1]
        return float(np.quantile(around, 0.05)) if len(around) else 0.0


@dataclass(frozen=True)
class Pause:
    """Quiet between two words; start, end in seconds."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.end - self.start

    def clip_end(self, margin: float = MARGIN_SECONDS) -> float:
        """Where a clip ends that is followed by this pause."""
        return self.start + min(margin, self.seconds / 2)

    def clip_start(self, margin: float = MARGIN_SECONDS) -> float:
        """Where a clip begins that follows this pause."""
        return self.end - min(margin, self.seconds / 2)


def pause_between(
    profile: SoundProfile,
    last_end: float,
    next_start: float,
    reach: float = _REACH_SECONDS,
    shortest: float = SHORTEST_PAUSE_SECONDS,
) -> Pause | None:
    """The longest quiet between the end of a word and the start of the next, in seconds; None when
    there is none of `shortest` seconds."""
    first = max(int((last_end - reach) / LEVEL_SECONDS), 0)
    last = min(int((next_start + reach) / LEVEL_SECONDS) + 1, len(profile.level_db))
    if last <= first:
        return None
    quiet = _quiet(profile, first, last)
    # A closure inside a word is no pause: the quiet must touch the gap between the words.
    found = [(begin + first, end + first) for begin, end in runs_of(quiet)
             if (end + first) * LEVEL_SECONDS >= min(last_end, next_start) - 0.02
             and (begin + first) * LEVEL_SECONDS <= max(last_end, next_start) + 0.02]  # fmt: skip
    if not found:
        return None
    begin, end = max(found, key=lambda run: run[1] - run[0])
    pause = Pause(begin * LEVEL_SECONDS, end * LEVEL_SECONDS)
    return pause if pause.seconds >= shortest - 1e-6 else None


def sounding_spans(profile: SoundProfile) -> list[tuple[float, float]]:
    """(start, end) in seconds of what stands between pauses of `SHORTEST_PAUSE_SECONDS`."""
    quiet = np.concatenate([
        _quiet(profile, first, min(first + _WINDOW, len(profile.level_db)))
        for first in range(0, len(profile.level_db), _WINDOW)
    ])  # fmt: skip
    shortest = round(SHORTEST_PAUSE_SECONDS / LEVEL_SECONDS)
    for begin, end in runs_of(quiet):
        if end - begin < shortest and begin > 0 and end < len(quiet):
            quiet[begin:end] = False
    return [(begin * LEVEL_SECONDS, end * LEVEL_SECONDS) for begin, end in runs_of(~quiet)]


def _quiet(profile: SoundProfile, first: int, last: int) -> np.ndarray:
    start, end = first * LEVEL_SECONDS, last * LEVEL_SECONDS
    around = profile.level_db[max(first - 300, 0) : last + 300]
    speech_db = float(np.quantile(around, 0.9))
    background = profile.background_db(start, end)
    limit = min(background + _ABOVE_BACKGROUND_DB, (background + speech_db) / 2)
    limit = max(limit, speech_db - 2 * _BELOW_SPEECH_DB)
    by_level = profile.level_db[first:last] < limit
    place = ((np.arange(first, last) + 0.5) * LEVEL_SECONDS / VAD_SECONDS).astype(int)
    speech = profile.speech[np.minimum(place, len(profile.speech) - 1)]
    quiet: np.ndarray = by_level | (speech < _SURELY_NO_SPEECH)
    return quiet


def runs_of(flags: np.ndarray) -> list[tuple[int, int]]:
    """(first, last + 1) of each run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], flags, [False])).astype(np.int8)))
    return [(int(begin), int(end)) for begin, end in zip(edges[::2], edges[1::2])]
