"""The likeliest reading of a recording, with a model that knows the truth."""

from collections.abc import Sequence

import pytest

from train.cutting.base_alignment import Breath, SpanMatch, SpanScore, best_matches

NATS_A_CODE, CODES = 2.5, 20


class KnowingScorer:
    """Knows which piece each breath says (None: something else); a breath has 20 codes."""

    def __init__(self, truth: Sequence[int | None], most_joined: int = 3) -> None:
        self.truth = truth
        self.asked = 0
        self._most_joined = most_joined

    def may_join(self, pieces: range) -> bool:
        return len(pieces) <= self._most_joined

    def score(self, first: int, groups: Sequence[range]) -> list[list[SpanScore]]:
        self.asked += len(groups)
        return [[self._score(first, last, group)
                 for last in range(first + 1, min(first + 6, len(self.truth)) + 1)]
                for group in groups]  # fmt: skip

    def _score(self, first: int, last: int, group: range) -> SpanScore:
        said = self.truth[first:last]
        right = sum(one in group for one in said)
        # All of the text, in its order, and nothing else: only then STOP is likely.
        whole = sorted({one for one in said if one is not None}) == list(group)
        nats = NATS_A_CODE * CODES * (2 * right - len(said)) - (0 if whole else 15)
        return SpanScore(last, nats, CODES * len(said), 0.0)


def reading(breaths: Sequence[Breath], pieces: int, model: KnowingScorer) -> list[SpanMatch]:
    return best_matches(breaths, pieces, model.score, model.may_join)


def matched(truth: Sequence[int | None], pieces: int) -> list[SpanMatch]:
    breaths = [Breath(2.0 * place, 2.0 * place + 1.5) for place in range(len(truth))]
    return reading(breaths, pieces, KnowingScorer(truth))


def said(matches: Sequence[SpanMatch], breaths: int) -> list[int | None]:
    """The first piece of the match that each breath is in."""
    found: list[int | None] = [None] * breaths
    for one in matches:
        for place in range(one.first, one.last):
            found[place] = one.first_piece
    return found


@pytest.mark.parametrize(
    ("truth", "pieces"),
    [
        ([0, 1, 2], 3),
        ([0, 0, 1, 1, 1, 2], 3),
        ([None, 0, None, None, 1, None], 2),
        ([0, 2, 3], 4),
        ([0, 1, None, 4, 5, 6], 7),
        ([None] * 12 + [9, 10, 11], 12),
    ],
    ids=["plain", "pauses inside", "other speech", "not said", "both", "begins late"],
)
def test_each_breath_says_what_it_says(truth: list[int | None], pieces: int) -> None:
    found = matched(truth, pieces)
    assert said(found, len(truth)) == truth
    assert all(one.last_piece == one.first_piece + 1 for one in found)
    assert found[0].nats_a_code == pytest.approx(NATS_A_CODE)


def test_sentences_without_a_pause_between_are_one_span() -> None:
    class WithoutPause(KnowingScorer):
        def _score(self, first: int, last: int, group: range) -> SpanScore:
            fits = (first, last, group) in {(0, 1, range(2)), (1, 2, range(2, 3))}
            return SpanScore(last, 100.0 if fits else -50.0, CODES, 0.0)

    breaths = [Breath(0.0, 3.0), Breath(3.5, 5.0)]
    one, other = reading(breaths, 3, WithoutPause([0, 2]))
    assert (one.first_piece, one.last_piece, other.first_piece) == (0, 2, 2)
    assert other.follows(one)
    assert not one.follows(other)


def test_nothing_is_found_where_nothing_is_said() -> None:
    assert matched([None] * 5, 3) == []
    assert reading([], 3, KnowingScorer([])) == []


def test_the_model_is_asked_a_bounded_number_of_times() -> None:
    truth = [place // 2 for place in range(400)]
    breaths = [Breath(2.0 * place, 2.0 * place + 1.5) for place in range(len(truth))]
    scorer = KnowingScorer(truth)
    assert said(reading(breaths, 200, scorer), 400) == truth
    assert scorer.asked < 400 * 24
