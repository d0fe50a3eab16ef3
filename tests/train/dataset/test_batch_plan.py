"""Which clips go together, which rank learns them, and what a halved budget makes of them."""

import pytest

from train.dataset.batch_plan import OomBackoff, at_epoch, cut, halve_budget, recut

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


@pytest.mark.parametrize(
    ("halvings", "epoch", "groups"),
    [
        ([], 2, GROUPS),
        ([OomBackoff(2, 1, 4.0)], 3, GROUPS),
        ([OomBackoff(2, 1, 4.0)], 2, [(0, 3), (1,), (6,), (2, 5), (7,), (4,)]),
        (
            [OomBackoff(1, 0, 6.0), OomBackoff(1, 2, 2.0)], 1,
            [(0,), (3,), (1,), (6,), (2,), (5,), (7,), (4,)],
        ),
    ],
    ids=["none", "in another epoch", "behind a batch", "twice"],
)  # fmt: skip
def test_before_a_halving_nothing_changes_and_behind_it_batches_are_smaller(
    halvings, epoch, groups
):
    assert recut(GROUPS, SECONDS, halvings, epoch) == groups


def test_later_epochs_are_planned_with_what_is_left():
    halvings = [OomBackoff(2, 1, 4.0), OomBackoff(3, 0, 2.0)]
    assert [at_epoch(8.0, halvings, epoch) for epoch in (1, 2, 3, 4)] == [8.0, 8.0, 4.0, 2.0]


@pytest.mark.parametrize(
    ("group", "budget", "expected"),
    [((0, 3), 8.0, 4.0), ((2, 5), 100.0, 2.0), ((4,), 8.0, None), ((), 8.0, None)],
)
def test_half_is_always_less_than_what_did_not_fit(group, budget, expected):
    assert halve_budget(group, SECONDS, budget) == expected
