"""Intervals of one way to hear a person against another, on rows whose figures are known."""

import pytest
import torch

from benchmarks.references import Rows


def rows(errors: list[float], distance: list[float]) -> Rows:
    return Rows(torch.tensor(errors), torch.tensor([4.0, 6.0, 10.0]), torch.tensor(distance))


def test_means_weigh_words_and_stand_in_their_intervals():
    found = rows([1, 0, 3], [40.0, 50.0, 60.0]).figures()
    assert found["word_errors"] == pytest.approx(4 / 20)
    assert found["distance"] == pytest.approx(50)
    for name in ("word_errors", "distance"):
        assert found[f"{name}_low"] < found[name] < found[f"{name}_high"]


def test_the_same_share_nearer_in_each_text_has_no_interval():
    one, ten = rows([2, 3, 5], [40.0, 50.0, 60.0]), rows([1, 2, 4], [36.0, 45.0, 54.0])
    found = ten.less_than(one)
    assert found["word_errors"] == pytest.approx(3 / 20)
    assert found["distance"] == pytest.approx(0.1)
    assert found["distance_low"] == pytest.approx(0.1) == found["distance_high"]


def test_texts_that_differ_both_ways_have_an_interval_around_nothing():
    one, ten = rows([2, 3, 5], [40.0, 50.0, 60.0]), rows([2, 3, 5], [50.0, 50.0, 50.0])
    found = ten.less_than(one)
    assert found["distance"] == pytest.approx(0)
    assert found["distance_low"] < 0 < found["distance_high"]
