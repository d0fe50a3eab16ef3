"""Judges how an utterance ended: whether it spoke the whole text once and then stopped.

Some heads of an autoregressive text-to-speech model attend to the text that is being spoken
(`xtts.inference.alignment.heads` finds them). Dynamic programming finds the best path through their
attention, which has one row per code. The path can stay, advance, skip tokens or jump. It gives the
times of words.

The verdict is based on this path, or without one on length and repeated codes. The guard never
forces or prevents a stop during decoding. Chatterbox did, and removed it because of false stops
(https://github.com/resemble-ai/chatterbox/pull/516). The module uses only numpy, so that torch and
ONNX Runtime can share it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xtts.model.shapes import CODE_RATE, SAMPLES_PER_CODE

Array = NDArray[Any]

CODE_SECONDS = SAMPLES_PER_CODE / CODE_RATE

# A lower bound of attention, so that a single row cannot rule out a path.
MIN_ATTENTION = 1e-3
# The cost, in nats, of skipping a spoken token; blanks and punctuation cost nothing.
SKIP_COST = 1.0
# The cost, in nats, of a jump to any position. Three rows must support it, because one or two are
# often wrong.
JUMP_COST = 12.0

# Limits in codes of 46 ms; docs/develop/guard.md describes the data on which they were chosen.
# Codes after the last word; closing silence takes 5 to 13.
MAX_CLOSING_CODES = 16
# Loud codes among them, if the sound is known. Last sounds may be drawn out.
MAX_LOUD_CLOSING_CODES = 10
# If the sound is unknown, a stop with fewer codes than this after the last token has cut it off.
MIN_CLOSING_CODES = 4
# The longest stay on one token, absolute and relative to the median: a phone takes 2 codes, a word
# that is one token 6.
MAX_CODES_ON_TOKEN, MAX_STAY_RATIO = 9, 5
# Attention that stays near an earlier position for this long is a repetition.
MIN_BACK_CODES, MIN_BACK_NEARNESS = 4, 0.6
# This many skipped tokens in a row count as a skipped word.
MIN_SKIPPED_TOKENS = 4
# Attention is lost if its mean nearness over a window is below the minimum for MIN_LOST_CODES.
MIN_NEARNESS, NEARNESS_WINDOW_CODES, MIN_LOST_CODES = 0.35, 5, 6
# A repetition has at least this many codes, and this many different ones.
MIN_REPEATED_CODES, MIN_DIFFERENT_CODES = 6, 5
# Without attention: codes per token of the fastest and the slowest speech, and a constant.
MIN_CODES_PER_TOKEN, MAX_CODES_PER_TOKEN, EXTRA_CODES = 0.7, 6.0, 16
# Codes that are kept after the last word when the sound after it is cut off.
KEPT_CLOSING_CODES = 5


@dataclass(frozen=True)
class Alignment:
    """The alignment of codes with text positions, which count START, the ids and STOP.

    Attributes:
        path: `[codes]`: the position that each code speaks, ascending.
        free_path: `[codes]`: as `path`, but follows attention back to earlier positions.
        nearness: `[codes]`: the share of the attention to the text within one position of
            `free_path`; almost 1 if a head follows the text, 3 / positions if it attends evenly.
        spoken: `[positions]`: whether a position is spoken; START, STOP, blanks and punctuation are
            not.
    """

    path: Array
    free_path: Array
    nearness: Array
    spoken: Array

    @property
    def last_spoken(self) -> int:
        """The position of the last spoken token; -1 if there is none."""
        positions = np.flatnonzero(self.spoken)
        return int(positions[-1]) if len(positions) else -1

    @property
    def end(self) -> int | None:
        """The first code after the last spoken token; None if the path ends before it."""
        codes = np.flatnonzero(self.free_path > self.last_spoken)
        return int(codes[0]) if len(codes) else None

    def times(self) -> Array:
        """`[positions, 2]`: the first code of each position and the code after its last, along
        `path`. A skipped position starts and ends where the path passed it."""
        positions = np.arange(len(self.spoken))
        starts = np.searchsorted(self.path, positions, side="left")
        ends = np.searchsorted(self.path, positions, side="right")
        return np.stack((starts, ends), axis=1)


def attention(queries: Array, keys: Array) -> Array:
    """The attention of heads to each position of the text, normalized over the text.

    Args:
        queries: `[rows, heads, head_width]`.
        keys: `[heads, positions, head_width]`.

    Returns:
        `[rows, positions]`, the mean over the heads; each row sums to 1.
    """
    scores = np.einsum("rhw,hpw->hrp", queries, keys, optimize=True) * keys.shape[-1] ** -0.5
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    weights: Array = (scores / scores.sum(-1, keepdims=True)).mean(0)
    return weights


def align(rows: Array, spoken: Sequence[bool] | Array) -> Alignment:
    """Finds the path through attention.

    Args:
        rows: `[codes, positions]`; each row sums to 1 (`attention`).
        spoken: `[positions]`: whether each is spoken.
    """
    spoken_positions = np.asarray(spoken, bool)
    free_path = _best_path(rows, spoken_positions, JUMP_COST)
    went_back = bool((np.diff(free_path) < 0).any())
    path = _best_path(rows, spoken_positions, np.inf) if went_back else free_path
    return Alignment(path, free_path, attention_near_path(rows, free_path), spoken_positions)


def attention_near_path(rows: Array, path: Array) -> Array:
    """`[codes]`: the attention of each row `[codes, positions]` to its position on the path and the
    two adjacent ones."""
    padded = np.pad(rows, ((0, 0), (1, 1)))
    codes = np.arange(len(rows))
    shares: Array = sum(padded[codes, path + offset] for offset in (0, 1, 2))
    return shares


def _best_path(rows: Array, spoken: Array, jump_cost: float) -> Array:
    """The positions `[codes]` of the likeliest path, by the Viterbi algorithm
    (https://doi.org/10.1109/TIT.1967.1054010). Skipping a spoken token costs SKIP_COST, a jump to any
    position costs `jump_cost`."""
    num_codes, num_positions = rows.shape
    likelihood = np.log(np.maximum(rows, MIN_ATTENTION))
    # Skipping from i to k, i < k, costs skip_costs[k] - skip_costs[i + 1].
    skip_costs = SKIP_COST * np.concatenate(([0], np.cumsum(spoken)))
    before, after = skip_costs[:-1], skip_costs[1:]
    positions = np.arange(num_positions)
    origins = np.zeros((num_codes, num_positions), np.int64)
    score = likelihood[0] - before
    for code in range(1, num_codes):
        # The best score of advancing from an earlier position, less the tokens skipped on the way.
        credit = score + after
        best_credit = np.maximum.accumulate(credit)
        best_position = np.maximum.accumulate(np.where(credit >= best_credit, positions, 0))
        forward = np.full(num_positions, -np.inf)
        forward[1:] = best_credit[:-1] - before[1:]
        origin = np.concatenate(([0], best_position[:-1]))
        stays = score >= forward
        without_jump = np.where(stays, score, forward)
        origin = np.where(stays, positions, origin)
        top = int(score.argmax())
        after_jump = score[top] - jump_cost
        origins[code] = np.where(without_jump < after_jump, top, origin)
        score = np.maximum(without_jump, after_jump) + likelihood[code]
    path = np.zeros(num_codes, np.int64)
    path[-1] = int(score.argmax())
    for code in range(num_codes - 1, 0, -1):
        path[code - 1] = origins[code, path[code]]
    return path


class Ending(StrEnum):
    """How an utterance ended."""

    GOOD = "good"
    UNFINISHED = "unfinished"
    CUT = "cut"
    REPEATED = "repeated"
    STALLED = "stalled"
    CONTINUED = "continued_after_end"


@dataclass(frozen=True)
class EndingVerdict:
    """The verdict on an utterance.

    Attributes:
        ending: The first fault, or `Ending.GOOD`.
        reason: What was observed, for a person; "" if it is good.
        covered: The share of the spoken tokens that was reached in order, 0 to 1.
        kept_codes: The number of codes up to the end of the last word; None if cutting the others
            does not help or is not safe.
        aligned: Whether the verdict is based on attention; otherwise on length and repetition.
    """

    ending: Ending
    reason: str = ""
    covered: float = 1.0
    kept_codes: int | None = None
    aligned: bool = True

    @property
    def is_good(self) -> bool:
        """Whether the utterance is without a fault."""
        return self.ending is Ending.GOOD

    @property
    def rank(self) -> tuple[bool, bool, float]:
        """The sort key of attempts, the highest is the best: good, then complete after cutting,
        then by coverage."""
        return self.is_good, self.kept_codes is not None, self.covered


def judge_ending(
    codes: Sequence[int] | Array,
    *,
    stopped: bool,
    alignment: Alignment | None,
    tokens: int,
    loud: Array | None = None,
) -> EndingVerdict:
    """Judges how an utterance ended.

    Args:
        codes: `[codes]`, without STOP.
        stopped: Whether the model produced STOP; otherwise it reached the code limit.
        alignment: Its alignment with the text; None if no head of the model follows the text.
        tokens: The number of tokens in the text that are spoken.
        loud: `[codes]` or longer: whether each code's sound is loud
            (`xtts.inference.alignment.guarded_piece`); None if the sound is unknown.
    """
    code_array = np.asarray(codes)
    if alignment is None or alignment.last_spoken < 0:
        return _judge_by_length(code_array, stopped=stopped, tokens=tokens)
    loudness = None if loud is None or len(code_array) < 2 else np.asarray(loud)[: len(code_array)]
    return _judge_by_path(code_array, alignment, loudness, stopped=stopped)


def _judge_by_path(codes: Array, alignment: Alignment, loud: Array | None, *, stopped: bool) -> EndingVerdict:
    num_codes, end = len(alignment.free_path), alignment.end
    # Attention may stay at the last token when its sound is over.
    reached_last = int(alignment.free_path.max()) == alignment.last_spoken
    if end is None and stopped and reached_last and loud is not None and not loud[-1]:
        end = num_codes
    # Codes after the end are judged separately: attention has nothing to follow there.
    text_codes = num_codes if end is None else end
    covered = _coverage(alignment, text_codes)
    if fault := _fault_in_text(alignment, text_codes):
        return EndingVerdict(*fault, covered)
    if end is None:
        share = f"{covered:.0%} of the text"
        if stopped:
            return EndingVerdict(Ending.UNFINISHED, f"it stopped after {share}", covered)
        return EndingVerdict(Ending.CUT, f"it reached the code limit after {share}", covered)
    repeated = find_repetition(codes)
    if repeated is not None and repeated < end:
        return EndingVerdict(Ending.REPEATED, _describe_repetition(repeated), covered)
    if fault := _fault_after_end(alignment, end, repeated, loud, stopped=stopped):
        return EndingVerdict(*fault, covered, end + KEPT_CLOSING_CODES)
    if num_codes - end < MIN_CLOSING_CODES if loud is None else loud[-1]:
        return EndingVerdict(Ending.UNFINISHED, "it stopped within the last sound", covered)
    return EndingVerdict(Ending.GOOD, covered=covered)


def _fault_in_text(alignment: Alignment, text_codes: int) -> tuple[Ending, str] | None:
    """The fault within the first `text_codes` codes, which speak the text; None without one."""
    if (back := _first_step_back(alignment, 0, text_codes)) is not None:
        return Ending.REPEATED, f"it went back in the text {_at_seconds(back)}"
    if (lost := _text_lost_at(alignment, 0, text_codes)) is not None:
        return Ending.STALLED, f"it lost the text {_at_seconds(lost)}"
    first, longest, median = _longest_stay(alignment, text_codes)
    if longest > max(MAX_CODES_ON_TOKEN, MAX_STAY_RATIO * median):
        return Ending.STALLED, f"{longest * CODE_SECONDS:.1f} s on one sound {_at_seconds(first)}"
    if (skipped := _longest_skip(alignment, text_codes)) >= MIN_SKIPPED_TOKENS:
        return Ending.UNFINISHED, f"{skipped} tokens in a row were skipped"
    return None


def _fault_after_end(
    alignment: Alignment, end: int, repeated: int | None, loud: Array | None, *, stopped: bool
) -> tuple[Ending, str] | None:
    """The fault from code `end` on, after the text; None without one. repeated: the code at which
    earlier codes repeat."""
    if repeated is not None:
        return Ending.REPEATED, _describe_repetition(repeated)
    num_codes = len(alignment.free_path)
    back = _first_step_back(alignment, end)
    if _is_too_long(num_codes - end, end, loud) or not stopped:
        reason = f"{(num_codes - end) * CODE_SECONDS:.1f} s of sound after the last word"
        if back is None:
            return Ending.CONTINUED, reason
        return Ending.REPEATED, f"{reason}, part of it repeated"
    if back is not None:
        return Ending.REPEATED, f"the end is repeated {_at_seconds(back)}"
    if (lost := _text_lost_at(alignment, end, num_codes)) is not None:
        return Ending.CONTINUED, f"sound that is not in the text {_at_seconds(lost)}, after the last word"
    return None


def _is_too_long(closing_codes: int, end: int, loud: Array | None) -> bool:
    """Whether the sound after the last token is longer than a phone."""
    if loud is None:
        return closing_codes > MAX_CLOSING_CODES
    return int(loud[end:].sum()) > MAX_LOUD_CLOSING_CODES


def _judge_by_length(codes: Array, *, stopped: bool, tokens: int) -> EndingVerdict:
    num_codes, least_codes = len(codes), MIN_CODES_PER_TOKEN * tokens
    verdict = partial(EndingVerdict, covered=min(1.0, num_codes / max(1.0, least_codes)), aligned=False)
    if (repeated := find_repetition(codes)) is not None:
        return verdict(Ending.REPEATED, _describe_repetition(repeated))
    if not stopped:
        return verdict(Ending.CUT, "it reached the code limit")
    seconds = f"{num_codes * CODE_SECONDS:.1f} s"
    if num_codes < least_codes:
        return verdict(Ending.UNFINISHED, f"{seconds} are too short for {tokens} tokens")
    if num_codes > MAX_CODES_PER_TOKEN * tokens + EXTRA_CODES:
        return verdict(Ending.CONTINUED, f"{seconds} are too long for {tokens} tokens")
    return verdict(Ending.GOOD)


def find_repetition(codes: Sequence[int] | Array) -> int | None:
    """The code at which earlier codes start to repeat exactly; None if they do not.

    A held sound and silence repeat too, but with few different codes.
    """
    code_array = np.asarray(codes)
    for lag in range(MIN_DIFFERENT_CODES, len(code_array) // 2 + 1):
        same = code_array[lag:] == code_array[:-lag]
        if np.count_nonzero(same) < max(lag, MIN_REPEATED_CODES):
            continue
        for start, stop in _runs(same):
            repetition = code_array[lag + start : lag + stop]
            is_varied = len(np.unique(repetition)) >= MIN_DIFFERENT_CODES
            if stop - start >= max(lag, MIN_REPEATED_CODES) and is_varied:
                return int(lag + start)
    return None


def _describe_repetition(code: int) -> str:
    return f"the sound {_at_seconds(code)} repeats earlier sound"


def _at_seconds(code: int) -> str:
    return f"at {code * CODE_SECONDS:.1f} s"


def _first_step_back(alignment: Alignment, start: int, stop: int | None = None) -> int | None:
    """The code at which attention went back to an earlier position and stayed there."""
    positions = alignment.free_path[:stop]
    is_behind = positions < np.maximum.accumulate(positions) - 1
    is_behind[:start] = False
    # Lost attention jumps back too, but does not repeat anything.
    for first, end in _runs(is_behind):
        if end - first >= MIN_BACK_CODES and alignment.nearness[first:end].mean() >= MIN_BACK_NEARNESS:
            return first
    return None


def _text_lost_at(alignment: Alignment, start: int, stop: int) -> int | None:
    """The code at which attention loses the text for at least MIN_LOST_CODES codes."""
    nearness, window = alignment.nearness[start:stop], NEARNESS_WINDOW_CODES
    if len(nearness) < window:
        return None
    means = np.convolve(nearness, np.full(window, 1 / window), "valid")
    runs = _runs(means < MIN_NEARNESS)
    return next((start + first for first, end in runs if end - first >= MIN_LOST_CODES), None)


def _longest_stay(alignment: Alignment, num_codes: int) -> tuple[int, int, float]:
    """The first code of the longest stay on a spoken token, its length, and the median of all
    stays, in the first `num_codes` codes."""
    positions = alignment.free_path[:num_codes]
    edges = np.concatenate(([0], np.flatnonzero(np.diff(positions)) + 1, [len(positions)]))
    firsts, lengths = edges[:-1], np.diff(edges)
    is_spoken = alignment.spoken[positions[firsts]] if num_codes else np.zeros(0, bool)
    if not is_spoken.any():
        return 0, 0, 0.0
    firsts, lengths = firsts[is_spoken], lengths[is_spoken]
    longest = int(lengths.argmax())
    return int(firsts[longest]), int(lengths[longest]), float(np.median(lengths))


def _longest_skip(alignment: Alignment, num_codes: int) -> int:
    """The longest row of spoken tokens that the first `num_codes` codes skipped."""
    if not num_codes:
        return 0
    positions = alignment.free_path[:num_codes]
    is_skipped = alignment.spoken.copy()
    is_skipped[np.unique(positions)] = False
    is_skipped[int(positions.max()) :] = False
    # Blanks between words do not split a skipped row.
    runs = _runs(is_skipped[alignment.spoken])
    return max((end - first for first, end in runs), default=0)


def _coverage(alignment: Alignment, num_codes: int) -> float:
    """The share of the spoken tokens up to the furthest position of the first `num_codes` codes."""
    if not num_codes:
        return 0.0
    furthest = int(alignment.free_path[:num_codes].max())
    return float(alignment.spoken[: furthest + 1].sum() / max(1, alignment.spoken.sum()))


def _runs(flags: Array) -> list[tuple[int, int]]:
    """The runs of True as (first, end)."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], flags.astype(np.int8), [0]))))
    return [(int(first), int(end)) for first, end in zip(edges[::2], edges[1::2], strict=True)]
