"""Which clips go together, which rank learns them, and what a halved budget makes of them."""

import random
from collections import Counter

import pytest

from train.dataset.batch_plan import (
    OomBackoff,
    at_epoch,
    cut,
    dealt,
    grouped,
    halve_budget,
    recut,
)

SECONDS = [4.0, 3.0, 2.0, 4.0, 1.0, 2.0, 3.0, 2.0]
GROUPS = [(0, 3), (1, 6), (2, 5, 7), (4,)]


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


def test_groups_hold_like_lengths():
    draw = random.Random(0)
    seconds = [draw.uniform(0.5, 11.6) for _ in range(400)]
    by_length = grouped(range(400), seconds, 40.0, random.Random(1))
    assert sorted(clip for group in by_length for clip in group) == list(range(400))
    by_chance = cut(random.Random(1).sample(range(400), 400), seconds, 40.0)
    spreads = []
    for groups in (by_length, by_chance):
        lengths = [[seconds[clip] for clip in group] for group in groups]
        spreads.append(sum(max(of) - min(of) for of in lengths) / len(lengths))
    assert spreads[0] < spreads[1] / 5


def test_a_step_of_many_ranks_holds_the_batches_that_one_rank_learns_in_a_row():
    plan = [(1, 2), (3,), (4, 5), (6,), (7, 8, 9)]
    assert dealt(plan, 0, 1) == plan
    assert dealt(plan, 0, 2) == [(1, 2), (4, 5), (7, 9)]
    assert dealt(plan, 1, 2) == [(3,), (6,), (8,)]
    assert dealt([(1,)], 1, 2) == [()]


def test_before_the_halving_nothing_changes_and_behind_it_batches_are_smaller():
    found = recut(GROUPS, SECONDS, [OomBackoff(2, 1, 4.0)], 2)
    assert found[0] == (0, 3)
    assert max(len(group) * max(SECONDS[i] for i in group) for group in found[1:]) <= 4.0
    assert Counter(i for group in found for i in group) == Counter(range(8))
    assert found == [(0, 3), (1,), (6,), (2, 5), (7,), (4,)]


def test_other_epochs_are_not_cut_again():
    assert recut(GROUPS, SECONDS, [OomBackoff(2, 1, 4.0)], 3) == GROUPS
    assert recut(GROUPS, SECONDS, [], 2) == GROUPS


def test_twice_in_an_epoch():
    twice = [OomBackoff(1, 0, 6.0), OomBackoff(1, 2, 2.0)]
    once = recut(GROUPS, SECONDS, twice[:1], 1)
    found = recut(GROUPS, SECONDS, twice, 1)
    assert found[:2] == once[:2]
    assert all(len(group) * max(SECONDS[i] for i in group) <= 2.0 or len(group) == 1
               for group in found[2:])  # fmt: skip


def test_later_epochs_are_planned_with_what_is_left():
    halvings = [OomBackoff(2, 1, 4.0), OomBackoff(3, 0, 2.0)]
    assert [at_epoch(8.0, halvings, epoch) for epoch in (1, 2, 3, 4)] == [8.0, 8.0, 4.0, 2.0]


@pytest.mark.parametrize(
    ("group", "budget", "expected"),
    [((0, 3), 8.0, 4.0), ((2, 5), 100.0, 2.0), ((4,), 8.0, None), ((), 8.0, None)],
)
def test_half_is_always_less_than_what_did_not_fit(group, budget, expected):
    assert halve_budget(group, SECONDS, budget) == expected
