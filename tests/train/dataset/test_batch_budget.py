"""What a halved budget makes of the batches of an epoch, and of all later ones."""

from collections import Counter

import pytest

from train.dataset.batch_budget import (
    OomBackoff,
    at_epoch,
    from_state,
    halve_budget,
    recut,
    to_state,
)

SECONDS = [4.0, 3.0, 2.0, 4.0, 1.0, 2.0, 3.0, 2.0]
GROUPS = [(0, 3), (1, 6), (2, 5, 7), (4,)]


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


def test_plain_values_come_back():
    halvings = [OomBackoff(2, 1, 4.5), OomBackoff(3, 0, 2.25)]
    assert from_state(to_state(halvings)) == halvings
