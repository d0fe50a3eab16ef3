"""Judges how an utterance ended: whether it said the text, all of it, once, and then stopped.

By the path of attention through the text (`xtts.inference.alignment.path`) where there is one; else
by length and by codes that repeat, and the verdict says so. It only judges: nothing here forces or
prevents a stop while a model speaks. Chatterbox did, and took it out again for its false stops
(https://github.com/resemble-ai/chatterbox/pull/516).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any

import numpy as np

from xtts.inference.alignment.path import Alignment
from xtts.model.shapes import CODE_RATE, SAMPLES_PER_CODE

Array = np.ndarray[Any, Any]

CODE_SECONDS = SAMPLES_PER_CODE / CODE_RATE

# In codes of 46 ms; docs/guard.md has what they were chosen on. The most behind the last word:
# closing silence takes 5 to 13.
MOST_CLOSING = 16
# Of these so many may be loud, where the sound is known: last sounds are drawn out.
MOST_LOUD_CLOSING = 10
# A stop sooner than this behind the last token cut its sound, where the sound is not known.
FEWEST_CLOSING = 4
# In so many codes a stop or an affricate may be quiet before it bursts.
MOST_IN_A_CLOSURE = 1
# The longest stay on one token, and how many times as long as the usual one: a phone takes 2 codes,
# a word that is one token 6.
MOST_ON_ONE_TOKEN, MOST_TIMES_AS_LONG = 9, 5
# As long as this in an earlier place, really looking at it, and it was said again.
FEWEST_BACK, REAL_NEARNESS = 4, 0.6
# So many tokens in a row that nobody said are a word.
FEWEST_SKIPPED = 4
# Attention that is nowhere: its mean over a few codes below this, for as long as that.
LOST_NEARNESS, LOST_WINDOW, FEWEST_LOST = 0.35, 5, 6
# Codes that come again one by one, at least so many, of which so many differ.
FEWEST_REPEATED, FEWEST_DIFFERENT = 6, 5
# Without attention: codes a token, from the fastest to the slowest speech, and what every
# utterance has besides.
FASTEST, SLOWEST, BESIDES = 0.7, 6.0, 16
# What is kept behind the last word where the rest is cut off.
KEPT_CLOSING = 5


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
    """What became of an utterance.

    Attributes:
        ending: What is wrong first, or `Ending.GOOD`.
        reason: For a person: what was seen. Empty when it is good.
        covered: The share of what is to be said that was reached in order, 0 to 1.
        keep: How many codes to keep so that the last word is whole and nothing comes after it; None
            where cutting is of no use, or not safe.
        aligned: False where no attention told; length and repetition did.
    """

    ending: Ending
    reason: str = ""
    covered: float = 1.0
    keep: int | None = None
    aligned: bool = True

    @property
    def good(self) -> bool:
        """Whether there is nothing to tell."""
        return self.ending is Ending.GOOD

    @property
    def rank(self) -> tuple[bool, bool, float]:
        """Of several utterances of a text, the one with the greatest is kept: a good one, then one
        that is whole after cutting, then the one that says most."""
        return self.good, self.keep is not None, self.covered


def judge(
    codes: Sequence[int] | Array,
    *,
    stopped: bool,
    alignment: Alignment | None,
    tokens: int,
    loud: Array | None = None,
) -> EndingVerdict:
    """How an utterance ended.

    Args:
        codes: `[codes]`, without STOP.
        stopped: Whether it said STOP itself; else it ran to its most codes.
        alignment: Its path; None where no head of the model follows the text.
        tokens: How many tokens of the text are said.
        loud: `[codes]` or longer: whether each code's sound is loud
            (`xtts.inference.alignment.guarded_piece`); None where the sound is not known.
    """
    code_array = np.asarray(codes)
    if alignment is None or alignment.last_spoken < 0:
        return _by_length(code_array, stopped=stopped, tokens=tokens)
    known = None if loud is None or len(code_array) < 2 else np.asarray(loud)[: len(code_array)]
    return _by_path(code_array, alignment, known, stopped=stopped)


def _by_path(
    codes: Array, path: Alignment, loud: Array | None, *, stopped: bool
) -> EndingVerdict:  # fmt: skip
    end = path.end
    # Attention may stay at the last token when its sound is over.
    reached = int(path.wandering.max()) == path.last_spoken
    if end is None and stopped and reached and loud is not None and not _loud_at_end(loud):
        end = len(path.wandering)
    # What comes behind the end is judged apart: attention has nothing to follow there.
    reached_codes = len(path.wandering) if end is None else end
    covered = _covered(path, reached_codes)
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
            Ending.REPEATED, f"the sound {_at(repeated)} came before", covered, behind
        )
    if _goes_on(closing, end, loud) or not stopped:
        back = _back(path, end)
        kind = Ending.CONTINUED if back is None else Ending.REPEATED
        reason = f"{closing * CODE_SECONDS:.1f} s of sound behind the last word"
        if back is not None:
            reason += ", of which some is said again"
        return EndingVerdict(kind, reason, covered, keep)
    if (back := _back(path, end)) is not None:
        return EndingVerdict(Ending.REPEATED, f"the end is said again {_at(back)}", covered, keep)
    if (lost := _lost(path, end, len(path.wandering))) is not None:
        reason = f"sound that is not of the text {_at(lost)}, behind the last word"
        return EndingVerdict(Ending.CONTINUED, reason, covered, keep)
    if closing < FEWEST_CLOSING if loud is None else _loud_at_end(loud):
        return EndingVerdict(Ending.UNFINISHED, "it stopped within the last sound", covered)
    return EndingVerdict(Ending.GOOD, covered=covered)


def _loud_at_end(loud: Array) -> bool:
    """Whether the sound had not faded: one quiet code may be the closure of a stop."""
    return bool(loud[-MOST_IN_A_CLOSURE - 1 :].any())


def _goes_on(closing: int, end: int, loud: Array | None) -> bool:
    """Whether there is more sound behind the last token than a last sound takes."""
    if loud is None:
        return closing > MOST_CLOSING
    return int(loud[end:].sum()) > MOST_LOUD_CLOSING


def _inside(path: Alignment, reached_codes: int) -> tuple[Ending, str] | None:
    """What is wrong before the end of the text was reached, `told` codes."""
    if (back := _back(path, 0, reached_codes)) is not None:
        return Ending.REPEATED, f"it went back in the text {_at(back)}"
    if (lost := _lost(path, 0, reached_codes)) is not None:
        return Ending.STALLED, f"it lost the text {_at(lost)}"
    at, longest, usual = _longest_stay(path, reached_codes)
    if longest > max(MOST_ON_ONE_TOKEN, MOST_TIMES_AS_LONG * usual):
        return Ending.STALLED, f"{longest * CODE_SECONDS:.1f} s on one sound {_at(at)}"
    if (skipped := _skipped(path, reached_codes)) >= FEWEST_SKIPPED:
        return Ending.UNFINISHED, f"{skipped} tokens in a row were left out"
    return None


def _before_the_end(path: Alignment, covered: float, *, stopped: bool) -> EndingVerdict:
    share = f"{covered:.0%} of the text"
    if stopped:
        return EndingVerdict(Ending.UNFINISHED, f"it stopped after {share}", covered)
    return EndingVerdict(Ending.CUT, f"the code limit came after {share}", covered)


def _by_length(codes: Array, *, stopped: bool, tokens: int) -> EndingVerdict:
    count = len(codes)
    by_length = partial(
        EndingVerdict, covered=min(1.0, count / max(1.0, FASTEST * tokens)), aligned=False
    )
    if (at := repeats_at(codes)) is not None:
        return by_length(Ending.REPEATED, f"the sound {_at(at)} came before")
    if not stopped:
        return by_length(Ending.CUT, "it ran to the code limit")
    if count < FASTEST * tokens:
        reason = f"{count * CODE_SECONDS:.1f} s are too short for {tokens} tokens"
        return by_length(Ending.UNFINISHED, reason)
    if count > SLOWEST * tokens + BESIDES:
        reason = f"{count * CODE_SECONDS:.1f} s are too long for {tokens} tokens"
        return by_length(Ending.CONTINUED, reason)
    return by_length(Ending.GOOD)


def repeats_at(codes: Sequence[int] | Array) -> int | None:
    """The code from which on those before it come again, one by one; None where none do.

    A held sound and silence repeat as well, with few different codes.
    """
    code_array = np.asarray(codes)
    for lag in range(FEWEST_DIFFERENT, len(code_array) // 2 + 1):
        same = code_array[lag:] == code_array[:-lag]
        if np.count_nonzero(same) < max(lag, FEWEST_REPEATED):
            continue
        for start, stop in _runs(same):
            again = code_array[lag + start : lag + stop]
            different = len(np.unique(again)) >= FEWEST_DIFFERENT
            if stop - start >= max(lag, FEWEST_REPEATED) and different:
                return int(lag + start)
    return None


def _at(code: int) -> str:
    return f"at {code * CODE_SECONDS:.1f} s"


def _back(path: Alignment, start: int, stop: int | None = None) -> int | None:
    """Where attention went back, and stayed behind where it had been."""
    places = path.wandering[:stop]
    behind = places < np.maximum.accumulate(places) - 1
    behind[:start] = False
    # Attention that is nowhere goes back too, and says nothing again.
    runs = [(first, last) for first, last in _runs(behind)
            if path.nearness[first:last].mean() >= REAL_NEARNESS]  # fmt: skip
    return next((first for first, last in runs if last - first >= FEWEST_BACK), None)


def _lost(path: Alignment, start: int, stop: int) -> int | None:
    """Where attention is nowhere in particular for long."""
    near = path.nearness[start:stop]
    if len(near) < LOST_WINDOW:
        return None
    means = np.convolve(near, np.full(LOST_WINDOW, 1 / LOST_WINDOW), "valid")
    runs = _runs(means < LOST_NEARNESS)
    return next((start + first for first, last in runs if last - first >= FEWEST_LOST), None)


def _longest_stay(path: Alignment, reached_codes: int) -> tuple[int, int, float]:
    """The code at which the longest stay on a token that is said begins, its length, and the
    median of all stays."""
    places = path.wandering[:reached_codes]
    edges = np.concatenate(([0], np.flatnonzero(np.diff(places)) + 1, [len(places)]))
    firsts, lengths = edges[:-1], np.diff(edges)
    is_spoken = path.spoken[places[firsts]] if reached_codes else np.zeros(0, bool)
    if not is_spoken.any():
        return 0, 0, 0.0
    firsts, lengths = firsts[is_spoken], lengths[is_spoken]
    longest = int(lengths.argmax())
    return int(firsts[longest]), int(lengths[longest]), float(np.median(lengths))


def _skipped(path: Alignment, reached_codes: int) -> int:
    """The longest row of tokens that are said which `told` codes passed over."""
    if not reached_codes:
        return 0
    reached = int(path.wandering[:reached_codes].max())
    missing = path.spoken.copy()
    missing[np.unique(path.wandering[:reached_codes])] = False
    missing[reached:] = False
    # Blanks between words do not divide what was left out.
    runs = _runs(missing[path.spoken])
    return max((last - first for first, last in runs), default=0)


def _covered(path: Alignment, reached_codes: int) -> float:
    if not reached_codes:
        return 0.0
    reached = int(path.wandering[:reached_codes].max())
    return float(path.spoken[: reached + 1].sum() / max(1, path.spoken.sum()))


def _runs(flags: Array) -> list[tuple[int, int]]:
    """The stretches of True, as (first, one behind the last)."""
    turns = np.flatnonzero(np.diff(np.concatenate(([0], flags.astype(np.int8), [0]))))
    return [(int(a), int(b)) for a, b in zip(turns[::2], turns[1::2], strict=True)]
