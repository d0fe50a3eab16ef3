"""Which clips go together, and which rank learns them."""

import random

import pytest

from train.dataset.bucketing import cut, dealt, grouped


@pytest.mark.parametrize(
    ("seconds", "groups"),
    [
        ([1.0, 1.0, 1.0, 1.0, 1.0], [(0, 1, 2, 3), (4,)]),  # just the budget
        ([1.0, 1.0, 9.0, 1.0, 1.0], [(0, 1), (2,), (3, 4)]),  # one that is longer than it
        ([1.0, 2.0, 2.0, 1.0], [(0, 1), (2, 3)]),  # the longest one counts, wherever it is
        ([1.0, 2.0, 1.0], [(0, 1), (2,)]),
        ([2.0, 1.0, 1.0, 1.0, 1.0], [(0, 1), (2, 3, 4)]),
        ([], []),
    ],
)
def test_the_longest_clip_times_their_number_fills_the_budget_and_no_more(seconds, groups):
    assert cut(range(len(seconds)), seconds, 4.0) == groups


def test_groups_hold_like_lengths_unless_told_otherwise():
    draw = random.Random(0)
    seconds = [draw.uniform(0.5, 11.6) for _ in range(400)]
    spreads = {}
    for bucketing in (True, False):
        groups = grouped(range(400), seconds, 40.0, random.Random(1), bucketing=bucketing)
        assert sorted(clip for group in groups for clip in group) == list(range(400))
        lengths = [[seconds[clip] for clip in group] for group in groups]
        spreads[bucketing] = sum(max(of) - min(of) for of in lengths) / len(lengths)
    assert spreads[True] < spreads[False] / 5


def test_a_step_of_many_ranks_holds_the_batches_that_one_rank_learns_in_a_row():
    plan = [(1, 2), (3,), (4, 5), (6,), (7, 8, 9)]
    assert dealt(plan, 0, 1) == plan
    assert dealt(plan, 0, 2) == [(1, 2), (4, 5), (7, 9)]
    assert dealt(plan, 1, 2) == [(3,), (6,), (8,)]
    assert dealt([(1,)], 1, 2) == [()]
