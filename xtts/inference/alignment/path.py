"""The text position of each code: a monotone path through the attention of a few heads.

Some heads of an autoregressive text-to-speech model attend to the text that is being spoken
(`xtts.inference.alignment.heads` finds them). Dynamic programming finds the best path through their
attention, which has one row per code. The path can stay, advance, skip tokens or jump. It gives the
times of words, and `xtts.inference.alignment.guard` judges the ending by it. The module uses only
numpy, so that torch and ONNX Runtime can share it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

# A lower bound of attention, so that a single row cannot rule out a path.
FLOOR = 1e-3
# The cost, in nats, of skipping a spoken token; blanks and punctuation cost nothing.
SKIP = 1.0
# The cost, in nats, of a jump to any position. Three rows must support it, because one or two are
# often wrong.
JUMP = 12.0


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
    shares: Array = sum(padded[codes, path + beside] for beside in (0, 1, 2))
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
