"""Which piece of a text is said in which span of a recording, by how much likelier a model finds
the sound with that piece than with other words. Pure: `train.cutting.base_scorer` asks the model.

Breaths, which have a pause on both sides, are gone through in the order of time. Any run of them
may say the next pieces, be passed over (other speech), or the text may be passed over (not said).
Dynamic programming with pruning (beam search, Lowerre 1976); sums of log-likelihood ratios decide,
so what neither says nor belongs to the text costs next to nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

# Nats: what it costs to pass over a breath, or a piece of the text, and to take two pieces for one
# span where there may be a pause between them.
_PASS_BREATH, _PASS_PIECE, _JOIN = 2.0, 1.0, 2.0
# A second of sound that is what the text says gives about 55 nats (2.6 a code); nothing gives more.
_MOST_NATS_A_SECOND = 90.0
# Readings at the same moment that are worse by more than this are given up.
_BEAM = 80.0
# So many pieces ahead are looked for, and one more for each breath that said none of them.
_AHEAD, _MOST_AHEAD = 3, 40
_MOST_JOINED = 3


class Breath(NamedTuple):
    """Sound between two pauses, in seconds."""

    start: float
    end: float


class SpanScore(NamedTuple):
    """From a first breath to before `last`: nats: how much likelier with the text than without;
    weakest: the least mean of them a code along 0.75 s."""

    last: int
    nats: float
    codes: int
    weakest: float


@dataclass(frozen=True)
class SpanMatch:
    """Breaths `first` to before `last` say the pieces `first_piece` to before `last_piece`."""

    first: int
    last: int
    first_piece: int
    last_piece: int
    score: SpanScore

    @property
    def nats_a_code(self) -> float:
        """The evidence for it."""
        return self.score.nats / max(self.score.codes, 1)

    def follows(self, other: "SpanMatch") -> bool:
        """Whether nothing is between them, neither in the text nor in the sound."""
        return (self.first, self.first_piece) == (other.last, other.last_piece)


class _Reading(NamedTuple):
    """A way to read what came before a moment. since: breaths passed over behind the last match."""

    nats: float
    since: int
    matches: tuple["_Reading", SpanMatch] | None


def best_matches(
    breaths: Sequence[Breath], num_pieces: int,
    score: Callable[[int, Sequence[range]], list[list[SpanScore]]],
    may_join: Callable[[range], bool],
) -> list[SpanMatch]:  # fmt: skip
    """The matches of the likeliest reading, in their order.

    Args:
        score: Of a first breath and groups of pieces, how well each group fits each end that is
            plausible. Asked once for each breath that a piece may begin with, in their order.
        may_join: Whether so many pieces may be one span.
    """
    waiting: list[dict[int, _Reading]] = [{} for _ in range(len(breaths) + 1)]
    waiting[0][0] = _Reading(0.0, 0, None)
    best_after = [float("-inf")] * (len(breaths) + 1)
    for first, breath in enumerate(breaths):
        alive = dict(_alive(waiting[first], breath, breaths, first, best_after))
        waiting[first] = {}
        for piece, reading in alive.items():
            passed = reading._replace(nats=reading.nats - _PASS_BREATH, since=reading.since + 1)
            _offer(waiting, best_after, first + 1, piece, passed)
        starts = _starts(alive, num_pieces)
        groups = [
            range(piece, piece + count)
            for piece in starts
            for count in range(1, _MOST_JOINED + 1)
            if piece + count <= num_pieces and may_join(range(piece, piece + count))
        ]
        for group, scores in zip(groups, score(first, groups) if groups else []):
            before = starts[group.start]
            for one in scores:
                if one.nats > 0:
                    match = SpanMatch(first, one.last, group.start, group.stop, one)
                    nats = before.nats + one.nats - _JOIN * (len(group) - 1)
                    reading = _Reading(nats, 0, (before, match))
                    _offer(waiting, best_after, one.last, group.stop, reading)
    return list(_traced(max(waiting[-1].values(), key=lambda one: one.nats)))


def _alive(
    readings: dict[int, _Reading], breath: Breath, breaths: Sequence[Breath], first: int,
    best_after: Sequence[float],
) -> Iterator[tuple[int, _Reading]]:  # fmt: skip
    """Those that may still become the best: neither far behind another at this moment, nor behind
    one that is ahead in time by more than the sound between can give."""
    if not readings:
        return
    least = max(one.nats for one in readings.values()) - _BEAM
    for later in range(first + 1, min(first + 40, len(breaths))):
        gain = _MOST_NATS_A_SECOND * (breaths[later].start - breath.start)
        least = max(least, best_after[later] - gain)
    for piece, reading in readings.items():
        if reading.nats >= least:
            yield piece, reading


def _starts(alive: dict[int, _Reading], num_pieces: int) -> dict[int, _Reading]:
    """The pieces that may come next, each with the best reading before it."""
    found = dict[int, _Reading]()
    if not alive:
        return found
    least = max(one.nats for one in alive.values()) - _BEAM
    for piece, reading in alive.items():
        ahead = min(_AHEAD + reading.since, _MOST_AHEAD)
        for later in range(piece, min(piece + ahead, num_pieces)):
            nats = reading.nats - _PASS_PIECE * (later - piece)
            if nats >= least and (later not in found or found[later].nats < nats):
                found[later] = reading._replace(nats=nats)
    return found


def _offer(
    waiting: list[dict[int, _Reading]], best_after: list[float], place: int, piece: int,
    reading: _Reading,
) -> None:  # fmt: skip
    known = waiting[place].get(piece)
    if known is None or known.nats < reading.nats:
        waiting[place][piece] = reading
        best_after[place] = max(best_after[place], reading.nats)


def _traced(reading: _Reading) -> list[SpanMatch]:
    found = list[SpanMatch]()
    while reading.matches is not None:
        reading, match = reading.matches
        found.append(match)
    return found[::-1]
