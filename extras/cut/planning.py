"""Plans the cuts, and accounts for every moment of a recording.

Cuts are at pauses only, into clips of 1 to 11 seconds, preferably at the ends of sentences. Dynamic
programming over the pauses of a breath finds the cheapest cuts. Parts outside of clips get a
reason.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from extras.cut.manuscript import PARAGRAPH_END, SENTENCE_END
from extras.cut.profile import (
    MIN_EDGE_PAUSE_SECONDS,
    MIN_PAUSE_SECONDS,
    WIDE_MARGINS_SECONDS,
    Pause,
    SoundProfile,
    pause_between,
    runs_of,
)
from extras.cut.speech_detection import LEVEL_FRAME_SECONDS, MIN_LEVEL_DB, speech_spans

MIN_CLIP_SECONDS, MAX_CLIP_SECONDS = 1.0, 11.0
_MIN_GOOD_SECONDS, _MAX_GOOD_SECONDS = 3.0, 9.0
# The cost of a clip that ends inside a clause, or at the end of a clause, sentence or paragraph.
_CUT_COST = (3.0, 1.0, 0.0, 0.0)
# The cost of a clip that continues past such an end.
_JOIN_COST = (0.0, 0.0, 0.3, 2.5)
# The cost of leaving speech out, and of each of its seconds.
_LOSS_COST, _LOSS_COST_PER_SECOND = 20.0, 10
_MAX_CLIPPED_SHARE = 0.01
# The longest silence before the first word of a clip and after its last.
_MAX_EDGE_SECONDS = 0.6
UNSURE = "unsure words"
TOO_LONG = "too long without a pause"
TOO_SHORT = "shorter than a second"
CLIPPED = "clipped"
IN_A_CLIP, SILENCE, NOISE = "in a clip", "silence", "music or noise"
# Noise is at least this far above the background, and louder than any silence.
_ABOVE_BACKGROUND_DB, _MAX_SILENCE_DB = 12.0, -55.0
# Shorter stretches of silence, noise or speech are merged with their surroundings.
_MIN_STRETCH_FRAMES = 30


@dataclass(frozen=True)
class PlacedUnit:
    """Text that is certainly spoken from `start` to `end`, in seconds.

    Attributes:
        ends: As in `TextUnit`.
        is_joined: Whether the next unit follows it in the text and in the same breath.
        speech_before, speech_after: The end of the previous speech and the start of the next, in
            seconds.
        tolerance: The tolerance of `start` and `end`, in seconds.
        begins_sentence: Whether it begins a sentence.
    """

    text: str
    start: float
    end: float
    ends: int
    is_joined: bool
    speech_before: float
    speech_after: float
    tolerance: float = 0.12
    begins_sentence: bool = True


@dataclass(frozen=True)
class Stretch:
    """A clip, or a part of a recording that is left out.

    Attributes:
        first, last: The first frame, and the one after the last. Frames have 10 ms; in an account,
            they are those of the recording.
        text: The text, if known.
        reason: Why it is left out, or `IN_A_CLIP`.
    """

    first: int
    last: int
    text: str
    reason: str = IN_A_CLIP


class _Section(NamedTuple):
    """Units from `first` to before `last` that become a clip, or are left out."""

    first: int
    last: int
    is_clip: bool


def plan(units: Sequence[PlacedUnit], profile: SoundProfile) -> tuple[list[Stretch], list[Stretch]]:
    """The clips of a recording, and the certain speech outside of clips."""
    clips, left_out = list[Stretch](), list[Stretch]()
    first = 0
    for index, unit in enumerate(units):
        if not unit.is_joined or index == len(units) - 1:
            for stretch in _plan_breath(units[first : index + 1], profile):
                (clips if stretch.reason == IN_A_CLIP else left_out).append(stretch)
            first = index + 1
    return clips, left_out


def _plan_breath(units: Sequence[PlacedUnit], profile: SoundProfile) -> Iterator[Stretch]:
    pauses = _pauses(units, profile)
    for first, last, is_clip in _cheapest_sections(units, pauses):
        before, after = pauses[first], pauses[last]
        text = " ".join(unit.text for unit in units[first:last])
        if is_clip and before and after:
            start, end = _clip_times(before, after)
            first_frame, last_frame = round(start * 100), round(end * 100)
            is_clipped = profile.clipped[first_frame:last_frame].mean() > _MAX_CLIPPED_SHARE
            reason = CLIPPED if is_clipped else IN_A_CLIP
        else:
            first_frame, last_frame = round(units[first].start * 100), round(units[last - 1].end * 100)
            reason = _reason_to_leave_out(units, pauses, first, last)
        yield Stretch(first_frame, last_frame, text, reason)


def _clip_times(before: Pause, after: Pause) -> tuple[float, float]:
    """The start and end of a clip; a single word gets more of the silence around it."""
    start, end = before.clip_start(), after.clip_end()
    for margin in WIDE_MARGINS_SECONDS:
        if end - start < MIN_CLIP_SECONDS:
            start, end = before.clip_start(margin), after.clip_end(margin)
    return start, end


def _reason_to_leave_out(
    units: Sequence[PlacedUnit], pauses: Sequence[Pause | None], first: int, last: int
) -> str:
    if pauses[first] is None or pauses[last] is None:
        # At an edge of the breath, uncertain speech follows without a pause.
        is_at_edge = first == 0 or last == len(units)
        return UNSURE if is_at_edge else TOO_LONG
    is_short = units[last - 1].end - units[first].start < MAX_CLIP_SECONDS / 2
    return TOO_SHORT if is_short else TOO_LONG


def _pauses(units: Sequence[PlacedUnit], profile: SoundProfile) -> list[Pause | None]:
    """The pause before each unit, and the one after the last."""
    pauses = list[Pause | None]()
    for index, unit in enumerate(units):
        before = units[index - 1].end if index else max(unit.speech_before, unit.start - _MAX_EDGE_SECONDS)
        # At the start of a paragraph, the speaker paused or the recording was resumed.
        is_edge = unit.begins_sentence and (index == 0 or units[index - 1].ends == PARAGRAPH_END)
        min_seconds = MIN_EDGE_PAUSE_SECONDS if is_edge else MIN_PAUSE_SECONDS
        pauses.append(pause_between(profile, before, unit.start, unit.tolerance, min_seconds))
    last = units[-1]
    after = min(last.speech_after, last.end + _MAX_EDGE_SECONDS)
    # The closure of a plosive before an uncertain word does not count as a pause.
    min_seconds = MIN_EDGE_PAUSE_SECONDS if last.ends >= SENTENCE_END else MIN_PAUSE_SECONDS
    pauses.append(pause_between(profile, last.end, after, last.tolerance, min_seconds))
    return pauses


def _cheapest_sections(units: Sequence[PlacedUnit], pauses: Sequence[Pause | None]) -> list[_Section]:
    """The cheapest division of a breath."""
    # For the first units, by their number: the lowest cost, and the last section.
    costs = [0.0] + [float("inf")] * len(units)
    last_sections = [_Section(0, 0, False)] * (len(units) + 1)
    for last in range(1, len(units) + 1):
        for first in range(last - 1, -1, -1):
            spoken = units[last - 1].end - units[first].start
            if spoken > MAX_CLIP_SECONDS and first < last - 1:
                break
            for cost, is_clip in (
                (_clip_cost(units, pauses, first, last), True),
                (_LOSS_COST + _LOSS_COST_PER_SECOND * spoken, False),
            ):
                if costs[first] + cost < costs[last]:
                    costs[last] = costs[first] + cost
                    last_sections[last] = _Section(first, last, is_clip)
    sections, last = list[_Section](), len(units)
    while last:
        section = last_sections[last]
        if sections and not section.is_clip and not sections[-1].is_clip:
            sections[-1] = _Section(section.first, sections[-1].last, False)
        else:
            sections.append(section)
        last = section.first
    return sections[::-1]


def _clip_cost(units: Sequence[PlacedUnit], pauses: Sequence[Pause | None], first: int, last: int) -> float:
    before, after = pauses[first], pauses[last]
    if before is None or after is None:
        return float("inf")
    start, end = _clip_times(before, after)
    seconds = end - start
    if not MIN_CLIP_SECONDS <= seconds <= MAX_CLIP_SECONDS:
        return float("inf")
    short, long = max(_MIN_GOOD_SECONDS - seconds, 0.0), max(seconds - _MAX_GOOD_SECONDS, 0.0)
    joins = sum(_JOIN_COST[unit.ends] for unit in units[first : last - 1])
    return short + long + _CUT_COST[units[last - 1].ends] + joins


def account(
    clips: Sequence[Stretch], left_out: Sequence[Stretch], profile: SoundProfile, rate: int, frames: int
) -> list[Stretch]:
    """The account of a whole recording, from frame 0 to `frames`, at the recording's rate."""
    # The reason and the text of each label of a 10 ms frame.
    reasons, texts = [SILENCE, NOISE, UNSURE], dict[int, str]()
    silence, unsure = reasons.index(SILENCE), reasons.index(UNSURE)
    labels = _is_noise(profile).astype(np.int32)
    for start, end in speech_spans(profile.speech):
        labels[int(start / LEVEL_FRAME_SECONDS) : int(end / LEVEL_FRAME_SECONDS)] = unsure
    for stretch in (*left_out, *clips):
        # Each has its own label, so that adjacent ones remain two rows.
        labels[stretch.first : stretch.last] = len(reasons)
        texts[len(reasons)] = stretch.text
        reasons.append(stretch.reason)
    for begin, end in runs_of(labels == unsure):
        # The margins of detected speech around a clip.
        if end - begin < _MIN_STRETCH_FRAMES:
            labels[begin:end] = silence
    edges = [0, *(np.flatnonzero(np.diff(labels)) + 1), len(labels)]
    rows = list[Stretch]()
    for begin, end in itertools.pairwise(edges):
        first, last = clip_frame(int(begin), rate), clip_frame(int(end), rate)
        last = frames if end == len(labels) else min(last, frames)
        if last > first:
            label = int(labels[begin])
            rows.append(Stretch(first, last, texts.get(label, ""), reasons[label]))
    return rows


def clip_frame(frame: int, rate: int) -> int:
    """The frame of the recording, at `rate` Hz, that starts with a 10 ms frame."""
    return round(frame * rate * LEVEL_FRAME_SECONDS)


def _is_noise(profile: SoundProfile) -> np.ndarray:
    """Whether each 10 ms frame is louder than silence, [frames]."""
    levels = profile.level_db
    audible = levels[levels > MIN_LEVEL_DB + 1]
    quiet_db = float(np.quantile(audible, 0.05)) if len(audible) else MIN_LEVEL_DB
    limit_db = max(quiet_db + _ABOVE_BACKGROUND_DB, _MAX_SILENCE_DB)
    loud = (levels > limit_db).astype(np.int32)
    # The majority over 0.3 s, so that a click is not taken for music.
    window = np.ones(_MIN_STRETCH_FRAMES) / _MIN_STRETCH_FRAMES
    is_noise: np.ndarray = np.convolve(loud, window, mode="same")[: len(loud)] > 0.5
    return is_noise
