"""The figures of `benchmarks adapters`."""

import pytest

from benchmarks import adapters


def test_a_contestant_is_held_against_the_base_of_the_same_round():
    """A round that another program slowed down slows both."""
    seen = {"base": [0.1, 0.2, 0.1], "four rows with four adapters": [0.11, 0.22, 0.12]}
    base, four = adapters.times(seen)
    assert base["times"] == 1.0 and four["times"] == pytest.approx(1.1)
    assert (four["name"], four["step_ms"], four["most_ms"]) == (
        "four rows with four adapters", 120.0, 220.0,
    )  # fmt: skip


def test_every_contestant_fills_all_rows():
    assert {len(rows) for rows in adapters.CONTESTANTS.values()} == {adapters.ROWS}
    assert set(adapters.CONTESTANTS["base"]) == {-1}
    assert sorted(adapters.CONTESTANTS["four rows with four adapters"]) == [0, 1, 2, 3]
