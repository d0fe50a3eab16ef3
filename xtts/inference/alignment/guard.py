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
FLOOR = 1e-3
# The cost, in nats, of skipping a spoken token; blanks and punctuation cost nothing.
SKIP = 1.0
# The cost, in nats, of a jump to any position. Three rows must support it, because one or two are
# often wrong.
JUMP = 12.0

# Limits in codes of 46 ms; docs/develop/guard.md describes the data on which they were chosen.
# The most codes after the last word; closing silence takes 5 to 13.
MAX_CLOSING = 16
# The most loud codes among them, if the sound is known. Last sounds may be drawn out.
MAX_LOUD_CLOSING = 10
# If the sound is unknown, a stop with fewer codes than this after the last token has cut it off.
MIN_CLOSING = 4
# The longest stay on one token, absolute and relative to the median: a phone takes 2 codes, a word
# that is one token 6.
MAX_ON_ONE_TOKEN, MAX_TIMES_AS_LONG = 9, 5
# Attention that stays near an earlier position for this long is a repetition.
MIN_BACK, REAL_NEARNESS = 4, 0.6
# This many skipped tokens in a row count as a skipped word.
MIN_SKIPPED = 4
# Attention is lost if its mean nearness over LOST_WINDOW codes is below LOST_NEARNESS for
# MIN_LOST codes.
LOST_NEARNESS, LOST_WINDOW, MIN_LOST = 0.35, 5, 6
# A repetition has at least this many codes, and this many different ones.
MIN_REPEATED, MIN_DIFFERENT = 6, 5
# Without attention: codes per token of the fastest and the slowest speech, and a constant.
FASTEST, SLOWEST, BESIDES = 0.7, 6.0, 16
# Codes kept after the last word when the rest is cut off.
KEPT_CLOSING = 5


@dataclass(frozen=True)
class Alignment:
    """The alignment of codes with text positions, which count START, the ids and STOP.

    Attributes:
        path: `[codes]`: the position that each code speaks, ascending.
        wandering: `[codes]`: as `path`, but follows attention back to earlier positions.
        nearness: `[codes]`: the share of the attention to the text within one position of
            `wandering`; near 1 if a head follows the text, 3 / positions if it attends evenly.
        spoken: `[positions]`: whether a position is spoken; START, STOP, blanks and punctuation are
            not.
    """

    path: Array
    wandering: Array
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
        codes = np.flatnonzero(self.wandering > self.last_spoken)
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
    wandering = _best_path(rows, spoken_positions, JUMP)
    went_back = bool((np.diff(wandering) < 0).any())
    path = _best_path(rows, spoken_positions, np.inf) if went_back else wandering
    return Alignment(path, wandering, near(rows, wandering), spoken_positions)


def near(rows: Array, path: Array) -> Array:
    """`[codes]`: the attention of each row `[codes, positions]` to its position on the path and the
    two adjacent ones."""
    padded = np.pad(rows, ((0, 0), (1, 1)))
    codes = np.arange(len(rows))
    shares: Array = sum(padded[codes, path + offset] for offset in (0, 1, 2))
    return shares


def _best_path(rows: Array, spoken: Array, jump: float) -> Array:
    """The positions `[codes]` of the likeliest path, by the Viterbi algorithm
    (https://doi.org/10.1109/TIT.1967.1054010). Skipping a spoken token costs SKIP, a jump to any
    position costs `jump`."""
    codes, positions = rows.shape
    likelihood = np.log(np.maximum(rows, FLOOR))
    # Skipping from i to k, i < k, costs skipped[k] - skipped[i + 1].
    skipped = SKIP * np.concatenate(([0], np.cumsum(spoken)))
    before, after = skipped[:-1], skipped[1:]
    numbers = np.arange(positions)
    came_from = np.zeros((codes, positions), np.int64)
    score = likelihood[0] - before
    for code in range(1, codes):
        # The best score of advancing from an earlier position, less the tokens skipped on the way.
        credit = score + after
        best = np.maximum.accumulate(credit)
        where = np.maximum.accumulate(np.where(credit >= best, numbers, 0))
        forward = np.full(positions, -np.inf)
        forward[1:] = best[:-1] - before[1:]
        origin = np.concatenate(([0], where[:-1]))
        stay = score >= forward
        chosen = np.where(stay, score, forward)
        origin = np.where(stay, numbers, origin)
        top = int(score.argmax())
        anywhere = score[top] - jump
        origin = np.where(chosen < anywhere, top, origin)
        score = np.maximum(chosen, anywhere) + likelihood[code]
        came_from[code] = origin
    path = np.zeros(codes, np.int64)
    path[-1] = int(score.argmax())
    for code in range(codes - 1, 0, -1):
        path[code - 1] = came_from[code, path[code]]
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
        keep: The number of codes to keep, up to the end of the last word; None if cutting does not
            help or is not safe.
        aligned: Whether the verdict is based on attention; otherwise on length and repetition.
    """

    ending: Ending
    reason: str = ""
    covered: float = 1.0
    keep: int | None = None
    aligned: bool = True

    @property
    def good(self) -> bool:
        """Whether the utterance is without a fault."""
        return self.ending is Ending.GOOD

    @property
    def rank(self) -> tuple[bool, bool, float]:
        """The sort key of attempts, the highest is the best: good, then complete after cutting,
        then by coverage."""
        return self.good, self.keep is not None, self.covered


def judge(
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
        alignment: Its path; None if no head of the model follows the text.
        tokens: The number of tokens in the text that are spoken.
        loud: `[codes]` or longer: whether each code's sound is loud
            (`xtts.inference.alignment.guarded_piece`); None if the sound is unknown.
    """
    code_array = np.asarray(codes)
    if alignment is None or alignment.last_spoken < 0:
        return _by_length(code_array, stopped=stopped, tokens=tokens)
    loudness = None if loud is None or len(code_array) < 2 else np.asarray(loud)[: len(code_array)]
    return _by_path(code_array, alignment, loudness, stopped=stopped)


def _by_path(codes: Array, path: Alignment, loud: Array | None, *, stopped: bool) -> EndingVerdict:
    end = path.end
    # Attention may stay at the last token when its sound is over.
    reached = int(path.wandering.max()) == path.last_spoken
    if end is None and stopped and reached and loud is not None and not loud[-1]:
        end = len(path.wandering)
    # Codes after the end are judged separately: attention has nothing to follow there.
    reached_codes = len(path.wandering) if end is None else end
    covered = _coverage(path, reached_codes)
    if fault := _inside(path, reached_codes):
        return EndingVerdict(*fault, covered)
    if end is None:
        return _before_the_end(path, covered, stopped=stopped)
    closing = len(path.wandering) - end
    repeated = repeats_at(codes)
    keep = end + KEPT_CLOSING
    if repeated is not None:
        behind = keep if repeated >= end else None
        return EndingVerdict(
            Ending.REPEATED, f"the sound {_at(repeated)} repeats earlier sound", covered, behind
        )
    if _goes_on(closing, end, loud) or not stopped:
        back = _back(path, end)
        kind = Ending.CONTINUED if back is None else Ending.REPEATED
        reason = f"{closing * CODE_SECONDS:.1f} s of sound after the last word"
        if back is not None:
            reason += ", part of it repeated"
        return EndingVerdict(kind, reason, covered, keep)
    if (back := _back(path, end)) is not None:
        return EndingVerdict(Ending.REPEATED, f"the end is repeated {_at(back)}", covered, keep)
    if (lost := _text_lost_at(path, end, len(path.wandering))) is not None:
        reason = f"sound that is not in the text {_at(lost)}, after the last word"
        return EndingVerdict(Ending.CONTINUED, reason, covered, keep)
    if closing < MIN_CLOSING if loud is None else loud[-1]:
        return EndingVerdict(Ending.UNFINISHED, "it stopped within the last sound", covered)
    return EndingVerdict(Ending.GOOD, covered=covered)


def _goes_on(closing: int, end: int, loud: Array | None) -> bool:
    """Whether the sound after the last token is longer than a phone."""
    if loud is None:
        return closing > MAX_CLOSING
    return int(loud[end:].sum()) > MAX_LOUD_CLOSING


def _inside(path: Alignment, reached_codes: int) -> tuple[Ending, str] | None:
    """The fault within the first `reached_codes` codes, up to the end of the text, if any."""
    if (back := _back(path, 0, reached_codes)) is not None:
        return Ending.REPEATED, f"it went back in the text {_at(back)}"
    if (lost := _text_lost_at(path, 0, reached_codes)) is not None:
        return Ending.STALLED, f"it lost the text {_at(lost)}"
    at, longest, usual = _longest_stay(path, reached_codes)
    if longest > max(MAX_ON_ONE_TOKEN, MAX_TIMES_AS_LONG * usual):
        return Ending.STALLED, f"{longest * CODE_SECONDS:.1f} s on one sound {_at(at)}"
    if (skipped := _longest_skip(path, reached_codes)) >= MIN_SKIPPED:
        return Ending.UNFINISHED, f"{skipped} tokens in a row were skipped"
    return None


def _before_the_end(path: Alignment, covered: float, *, stopped: bool) -> EndingVerdict:
    share = f"{covered:.0%} of the text"
    if stopped:
        return EndingVerdict(Ending.UNFINISHED, f"it stopped after {share}", covered)
    return EndingVerdict(Ending.CUT, f"it reached the code limit after {share}", covered)


def _by_length(codes: Array, *, stopped: bool, tokens: int) -> EndingVerdict:
    count = len(codes)
    by_length = partial(EndingVerdict, covered=min(1.0, count / max(1.0, FASTEST * tokens)), aligned=False)
    if (at := repeats_at(codes)) is not None:
        return by_length(Ending.REPEATED, f"the sound {_at(at)} repeats earlier sound")
    if not stopped:
        return by_length(Ending.CUT, "it reached the code limit")
    if count < FASTEST * tokens:
        reason = f"{count * CODE_SECONDS:.1f} s are too short for {tokens} tokens"
        return by_length(Ending.UNFINISHED, reason)
    if count > SLOWEST * tokens + BESIDES:
        reason = f"{count * CODE_SECONDS:.1f} s are too long for {tokens} tokens"
        return by_length(Ending.CONTINUED, reason)
    return by_length(Ending.GOOD)


def repeats_at(codes: Sequence[int] | Array) -> int | None:
    """The code at which earlier codes start to repeat exactly; None if they do not.

    A held sound and silence repeat too, but with few different codes.
    """
    code_array = np.asarray(codes)
    for lag in range(MIN_DIFFERENT, len(code_array) // 2 + 1):
        same = code_array[lag:] == code_array[:-lag]
        if np.count_nonzero(same) < max(lag, MIN_REPEATED):
            continue
        for start, stop in _runs(same):
            again = code_array[lag + start : lag + stop]
            different = len(np.unique(again)) >= MIN_DIFFERENT
            if stop - start >= max(lag, MIN_REPEATED) and different:
                return int(lag + start)
    return None


def _at(code: int) -> str:
    return f"at {code * CODE_SECONDS:.1f} s"


def _back(path: Alignment, start: int, stop: int | None = None) -> int | None:
    """The code at which attention went back to an earlier position and stayed there."""
    places = path.wandering[:stop]
    behind = places < np.maximum.accumulate(places) - 1
    behind[:start] = False
    # Lost attention jumps back too, but does not repeat anything.
    runs = [
        (first, last) for first, last in _runs(behind) if path.nearness[first:last].mean() >= REAL_NEARNESS
    ]
    return next((first for first, last in runs if last - first >= MIN_BACK), None)


def _text_lost_at(path: Alignment, start: int, stop: int) -> int | None:
    """The code at which attention loses the text for at least MIN_LOST codes."""
    near = path.nearness[start:stop]
    if len(near) < LOST_WINDOW:
        return None
    means = np.convolve(near, np.full(LOST_WINDOW, 1 / LOST_WINDOW), "valid")
    runs = _runs(means < LOST_NEARNESS)
    return next((start + first for first, last in runs if last - first >= MIN_LOST), None)


def _longest_stay(path: Alignment, reached_codes: int) -> tuple[int, int, float]:
    """The first code of the longest stay on a spoken token, its length, and the median of all
    stays."""
    places = path.wandering[:reached_codes]
    edges = np.concatenate(([0], np.flatnonzero(np.diff(places)) + 1, [len(places)]))
    firsts, lengths = edges[:-1], np.diff(edges)
    is_spoken = path.spoken[places[firsts]] if reached_codes else np.zeros(0, bool)
    if not is_spoken.any():
        return 0, 0, 0.0
    firsts, lengths = firsts[is_spoken], lengths[is_spoken]
    longest = int(lengths.argmax())
    return int(firsts[longest]), int(lengths[longest]), float(np.median(lengths))


def _longest_skip(path: Alignment, reached_codes: int) -> int:
    """The longest row of spoken tokens that the first `reached_codes` codes skipped."""
    if not reached_codes:
        return 0
    reached = int(path.wandering[:reached_codes].max())
    missing = path.spoken.copy()
    missing[np.unique(path.wandering[:reached_codes])] = False
    missing[reached:] = False
    # Blanks between words do not split a skipped row.
    runs = _runs(missing[path.spoken])
    return max((last - first for first, last in runs), default=0)


def _coverage(path: Alignment, reached_codes: int) -> float:
    if not reached_codes:
        return 0.0
    reached = int(path.wandering[:reached_codes].max())
    return float(path.spoken[: reached + 1].sum() / max(1, path.spoken.sum()))


def _runs(flags: Array) -> list[tuple[int, int]]:
    """The runs of True as (first, end)."""
    turns = np.flatnonzero(np.diff(np.concatenate(([0], flags.astype(np.int8), [0]))))
    return [(int(a), int(b)) for a, b in zip(turns[::2], turns[1::2], strict=True)]
