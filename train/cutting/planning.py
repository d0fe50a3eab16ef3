"""Where to cut: at pauses only, into 1 to 11 seconds, rather at the ends of sentences.

The best cuts of a breath are found by dynamic programming over its pauses. Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from train.cutting.alignment.placing import PlacedUnit
from train.cutting.pauses import (
    SHORTEST_EDGE_SECONDS,
    SHORTEST_PAUSE_SECONDS,
    WIDE_MARGINS_SECONDS,
    Pause,
    SoundProfile,
    pause_between,
)

SHORTEST_SECONDS, LONGEST_SECONDS = 1.0, 11.0
_GOOD_SECONDS = (3.0, 9.0)
# What a clip costs that ends inside a sentence, at a clause, at its end, at that of a paragraph.
_CUT_COST = (3.0, 1.0, 0.0, 0.0)
# And one that goes on over such an end.
_JOIN_COST = (0.0, 0.0, 0.3, 2.5)
_SENTENCE_END, _PARAGRAPH_END = 2, 3
_LOSS_COST = 20.0
_CLIPPED_SHARE = 0.01
# Quiet before the first word and behind the last: where nothing is said, this far at most.
_EDGE_SECONDS = 0.6

UNSURE = "unsure words"
TOO_LONG = "too long without a pause"
TOO_SHORT = "shorter than a second"
CLIPPED = "clipped"


@dataclass(frozen=True)
class PlannedClip:
    """A clip to write: frames of 10 ms, and its text."""

    first: int
    last: int
    text: str


@dataclass(frozen=True)
class LeftOut:
    """Speech that is in no clip: frames of 10 ms, the reason, and its text where that is known."""

    first: int
    last: int
    reason: str
    text: str


def plan(
    units: Sequence[PlacedUnit], profile: SoundProfile
) -> tuple[list[PlannedClip], list[LeftOut]]:
    """The clips of a recording, and what of its sure speech is in none."""
    clips, left = list[PlannedClip](), list[LeftOut]()
    first = 0
    for place, unit in enumerate(units):
        if not unit.with_next or place == len(units) - 1:
            found, lost = _plan_breath(units[first : place + 1], profile)
            clips += found
            left += lost
            first = place + 1
    return clips, left


def _plan_breath(
    units: Sequence[PlacedUnit], profile: SoundProfile
) -> tuple[list[PlannedClip], list[LeftOut]]:
    pauses = _pauses(units, profile)
    clips, left = list[PlannedClip](), list[LeftOut]()
    for first, last, kept in _cheapest(units, pauses):
        before, after = pauses[first], pauses[last]
        text = " ".join(unit.text for unit in units[first:last])
        if kept and before and after:
            start, stop = _edges(before, after)
            begin, end = round(start * 100), round(stop * 100)
            if profile.clipped[begin:end].mean() > _CLIPPED_SHARE:
                left.append(LeftOut(begin, end, CLIPPED, text))
            else:
                clips.append(PlannedClip(begin, end, text))
            continue
        begin, end = round(units[first].start * 100), round(units[last - 1].end * 100)
        left.append(LeftOut(begin, end, _reason(units, pauses, first, last), text))
    return clips, left


def _edges(before: Pause, after: Pause) -> tuple[float, float]:
    """Start and end of a clip; a single word is given more of the quiet around it."""
    start, stop = before.clip_start(), after.clip_end()
    for margin in WIDE_MARGINS_SECONDS:
        if stop - start < SHORTEST_SECONDS:
            start, stop = before.clip_start(margin), after.clip_end(margin)
    return start, stop


def _reason(
    units: Sequence[PlacedUnit], pauses: Sequence[Pause | None], first: int, last: int
) -> str:
    if pauses[first] is None or pauses[last] is None:
        # It runs into something else without a pause: neighbours that are not sure.
        edge = first == 0 or last == len(units)
        return UNSURE if edge else TOO_LONG
    short = units[last - 1].end - units[first].start < LONGEST_SECONDS / 2
    return TOO_SHORT if short else TOO_LONG


def _pauses(units: Sequence[PlacedUnit], profile: SoundProfile) -> list[Pause | None]:
    """The pause before each unit, and the one behind the last."""
    found = list[Pause | None]()
    for place, unit in enumerate(units):
        before = units[place - 1].end if place else max(unit.before, unit.start - _EDGE_SECONDS)
        # Where the text begins a paragraph, the speaker paused or was recorded anew.
        is_edge = unit.begins and (place == 0 or units[place - 1].ends == _PARAGRAPH_END)
        shortest = SHORTEST_EDGE_SECONDS if is_edge else SHORTEST_PAUSE_SECONDS
        found.append(pause_between(profile, before, unit.start, unit.reach, shortest))
    last = units[-1]
    after = min(last.after, last.end + _EDGE_SECONDS)
    # A closure before a word that is not sure is no pause.
    shortest = SHORTEST_EDGE_SECONDS if last.ends >= _SENTENCE_END else SHORTEST_PAUSE_SECONDS
    found.append(pause_between(profile, last.end, after, last.reach, shortest))
    return found


def _cheapest(
    units: Sequence[PlacedUnit], pauses: Sequence[Pause | None]
) -> list[tuple[int, int, bool]]:
    """(first unit, last unit + 1, whether it is a clip) of the cheapest division."""
    costs = [0.0] + [float("inf")] * len(units)
    came: list[tuple[int, bool]] = [(0, False)] * (len(units) + 1)
    for last in range(1, len(units) + 1):
        for first in range(last - 1, -1, -1):
            spoken = units[last - 1].end - units[first].start
            if spoken > LONGEST_SECONDS and first < last - 1:
                break
            for cost, kept in ((_clip_cost(units, pauses, first, last), True),
                               (_LOSS_COST + 10 * spoken, False)):  # fmt: skip
                if costs[first] + cost < costs[last]:
                    costs[last] = costs[first] + cost
                    came[last] = (first, kept)
    found, last = list[tuple[int, int, bool]](), len(units)
    while last:
        first, kept = came[last]
        if found and not kept and not found[-1][2]:
            found[-1] = (first, found[-1][1], False)
        else:
            found.append((first, last, kept))
        last = first
    return found[::-1]


def _clip_cost(
    units: Sequence[PlacedUnit], pauses: Sequence[Pause | None], first: int, last: int
) -> float:
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
