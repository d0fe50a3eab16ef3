"""Plans the cuts, and accounts for every moment of a recording.

Cuts are at pauses only, into clips of 1 to 11 seconds, preferably at the ends of sentences. Dynamic
programming over the pauses of a breath finds the cheapest cuts. Parts outside of clips get a
reason.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from extras.cut.profile import (
    LEVEL_SECONDS,
    SHORTEST_EDGE_SECONDS,
    SHORTEST_PAUSE_SECONDS,
    SILENT_DB,
    WIDE_MARGINS_SECONDS,
    Pause,
    SoundProfile,
    pause_between,
    runs_of,
    speech_spans,
)

SHORTEST_SECONDS, LONGEST_SECONDS = 1.0, 11.0
_GOOD_SECONDS = (3.0, 9.0)
# The cost of a clip that ends inside a clause, or at the end of a clause, sentence or paragraph.
_CUT_COST = (3.0, 1.0, 0.0, 0.0)
# The cost of a clip that continues past such an end.
_JOIN_COST = (0.0, 0.0, 0.3, 2.5)
_SENTENCE_END, _PARAGRAPH_END = 2, 3
_LOSS_COST = 20.0
_CLIPPED_SHARE = 0.01
# The longest silence before the first word of a clip and after its last.
_EDGE_SECONDS = 0.6
UNSURE = "unsure words"
TOO_LONG = "too long without a pause"
TOO_SHORT = "shorter than a second"
CLIPPED = "clipped"
IN_A_CLIP, SILENCE, NOISE = "in a clip", "silence", "music or noise"
_ABOVE_BACKGROUND_DB = 12.0
_LOUDEST_SILENCE_DB = -45.0
# Shorter stretches of silence, noise or speech are merged with their surroundings.
_SHORTEST_FRAMES = 30


@dataclass(frozen=True)
class PlacedUnit:
    """Text that is certainly spoken from `start` to `end`, in seconds.

    Attributes:
        ends: As in `TextUnit`.
        with_next: Whether the next unit follows it in the text and in the same breath.
        before, after: The end of the previous speech and the start of the next, in seconds.
        reach: The tolerance of `start` and `end`, in seconds.
        begins: Whether it begins a sentence.
    """

    text: str
    start: float
    end: float
    ends: int
    with_next: bool
    before: float
    after: float
    reach: float = 0.12
    begins: bool = True


@dataclass(frozen=True)
class Stretch:
    """A clip, or a part left out for a reason, from frame `first` to before `last`. In frames of 10
    ms; in an account, in frames of the recording. text: its text, if known."""

    first: int
    last: int
    text: str
    reason: str = IN_A_CLIP


def plan(units: Sequence[PlacedUnit], profile: SoundProfile) -> tuple[list[Stretch], list[Stretch]]:
    """The clips of a recording, and the certain speech outside of clips."""
    clips, left = list[Stretch](), list[Stretch]()
    first = 0
    for place, unit in enumerate(units):
        if not unit.with_next or place == len(units) - 1:
            planned, lost = _plan_breath(units[first : place + 1], profile)
            clips += planned
            left += lost
            first = place + 1
    return clips, left


def _plan_breath(units: Sequence[PlacedUnit], profile: SoundProfile) -> tuple[list[Stretch], list[Stretch]]:
    pauses = _pauses(units, profile)
    clips, left = list[Stretch](), list[Stretch]()
    for first, last, is_clip in _cheapest(units, pauses):
        before, after = pauses[first], pauses[last]
        text = " ".join(unit.text for unit in units[first:last])
        if is_clip and before and after:
            start, stop = _edges(before, after)
            begin, end = round(start * 100), round(stop * 100)
            if profile.clipped[begin:end].mean() > _CLIPPED_SHARE:
                left.append(Stretch(begin, end, text, CLIPPED))
            else:
                clips.append(Stretch(begin, end, text))
            continue
        begin, end = round(units[first].start * 100), round(units[last - 1].end * 100)
        left.append(Stretch(begin, end, text, _reason(units, pauses, first, last)))
    return clips, left


def _edges(before: Pause, after: Pause) -> tuple[float, float]:
    """The start and end of a clip; a single word gets more of the silence around it."""
    start, stop = before.clip_start(), after.clip_end()
    for margin in WIDE_MARGINS_SECONDS:
        if stop - start < SHORTEST_SECONDS:
            start, stop = before.clip_start(margin), after.clip_end(margin)
    return start, stop


def _reason(units: Sequence[PlacedUnit], pauses: Sequence[Pause | None], first: int, last: int) -> str:
    if pauses[first] is None or pauses[last] is None:
        # It touches uncertain speech without a pause.
        edge = first == 0 or last == len(units)
        return UNSURE if edge else TOO_LONG
    short = units[last - 1].end - units[first].start < LONGEST_SECONDS / 2
    return TOO_SHORT if short else TOO_LONG


def _pauses(units: Sequence[PlacedUnit], profile: SoundProfile) -> list[Pause | None]:
    """The pause before each unit, and the one after the last."""
    pauses = list[Pause | None]()
    for place, unit in enumerate(units):
        before = units[place - 1].end if place else max(unit.before, unit.start - _EDGE_SECONDS)
        # At the start of a paragraph, the speaker paused or the recording was resumed.
        is_edge = unit.begins and (place == 0 or units[place - 1].ends == _PARAGRAPH_END)
        shortest = SHORTEST_EDGE_SECONDS if is_edge else SHORTEST_PAUSE_SECONDS
        pauses.append(pause_between(profile, before, unit.start, unit.reach, shortest))
    last = units[-1]
    after = min(last.after, last.end + _EDGE_SECONDS)
    # The closure of a plosive before an uncertain word does not count as a pause.
    shortest = SHORTEST_EDGE_SECONDS if last.ends >= _SENTENCE_END else SHORTEST_PAUSE_SECONDS
    pauses.append(pause_between(profile, last.end, after, last.reach, shortest))
    return pauses


def _cheapest(units: Sequence[PlacedUnit], pauses: Sequence[Pause | None]) -> list[tuple[int, int, bool]]:
    """The cheapest division into (first unit, last unit + 1, whether it is a clip)."""
    costs = [0.0] + [float("inf")] * len(units)
    came: list[tuple[int, bool]] = [(0, False)] * (len(units) + 1)
    for last in range(1, len(units) + 1):
        for first in range(last - 1, -1, -1):
            spoken = units[last - 1].end - units[first].start
            if spoken > LONGEST_SECONDS and first < last - 1:
                break
            for cost, is_clip in (
                (_clip_cost(units, pauses, first, last), True),
                (_LOSS_COST + 10 * spoken, False),
            ):
                if costs[first] + cost < costs[last]:
                    costs[last] = costs[first] + cost
                    came[last] = (first, is_clip)
    division, last = list[tuple[int, int, bool]](), len(units)
    while last:
        first, is_clip = came[last]
        if division and not is_clip and not division[-1][2]:
            division[-1] = (first, division[-1][1], False)
        else:
            division.append((first, last, is_clip))
        last = first
    return division[::-1]


def _clip_cost(units: Sequence[PlacedUnit], pauses: Sequence[Pause | None], first: int, last: int) -> float:
    before, after = pauses[first], pauses[last]
    if before is None or after is None:
        return float("inf")
    start, stop = _edges(before, after)
    seconds = stop - start
    if not SHORTEST_SECONDS <= seconds <= LONGEST_SECONDS:
        return float("inf")
    short, long = max(_GOOD_SECONDS[0] - seconds, 0.0), max(seconds - _GOOD_SECONDS[1], 0.0)
    joins = sum(_JOIN_COST[unit.ends] for unit in units[first : last - 1])
    return short + long + _CUT_COST[units[last - 1].ends] + joins


def account(
    clips: Sequence[Stretch], left: Sequence[Stretch], profile: SoundProfile, rate: int, frames: int
) -> list[Stretch]:
    """The account of a whole recording, from frame 0 to `frames`, at the recording's rate."""
    kinds = [SILENCE, NOISE, UNSURE]
    labels = _background(profile)
    for start, end in speech_spans(profile.speech):
        labels[int(start / LEVEL_SECONDS) : int(end / LEVEL_SECONDS)] = 2
    texts = dict[int, str]()
    for stretch in (*left, *clips):
        # Each has another number, so that adjacent ones remain two rows.
        labels[stretch.first : stretch.last] = len(kinds)
        texts[len(kinds)] = stretch.text
        kinds.append(stretch.reason)
    for begin, end in runs_of(labels == 2):
        # The margins of detected speech around a clip.
        if end - begin < _SHORTEST_FRAMES:
            labels[begin:end] = 0
    edges = [0, *(np.flatnonzero(np.diff(labels)) + 1), len(labels)]
    rows = list[Stretch]()
    for begin, end in itertools.pairwise(edges):
        first, last = clip_frame(int(begin), rate), clip_frame(int(end), rate)
        last = frames if end == len(labels) else min(last, frames)
        if last > first:
            label = int(labels[begin])
            rows.append(Stretch(first, last, texts.get(label, ""), kinds[label]))
    return rows


def clip_frame(place: int, rate: int) -> int:
    """The frame of the recording, at `rate` Hz, that starts at `place` times 10 ms."""
    return round(place * rate * LEVEL_SECONDS)


def _background(profile: SoundProfile) -> np.ndarray:
    """For each 10 ms: 0 silence, 1 sound."""
    levels = profile.level_db
    audible = levels[levels > SILENT_DB + 1]
    quiet = float(np.quantile(audible, 0.05)) if len(audible) else SILENT_DB
    limit = max(quiet + _ABOVE_BACKGROUND_DB, _LOUDEST_SILENCE_DB - 10)
    loud = (levels > limit).astype(np.int32)
    # The majority over 0.3 s, so that a click is not taken for music.
    window = np.ones(_SHORTEST_FRAMES) / _SHORTEST_FRAMES
    smooth = np.convolve(loud, window, mode="same")[: len(loud)]
    kinds: np.ndarray = (smooth > 0.5).astype(np.int32)
    return kinds
