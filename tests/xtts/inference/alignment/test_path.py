"""The path through attention, on matrices with a known path."""

import numpy as np
import pytest

from tests.xtts.inference.alignment.attention_rows import LAST, SPOKEN, rows, spoken_at, whole
from xtts.inference.alignment.guard import align, attention


@pytest.mark.parametrize("sharp", [0.9, 0.5, 0.3])
def test_the_path_is_where_attention_was(sharp):
    alignment = align(rows(whole(), sharp), SPOKEN)
    assert np.abs(alignment.path - whole()).max() <= 1
    assert np.mean(alignment.path == whole()) > 0.9
    assert alignment.end is not None and abs(alignment.end - (len(whole()) - 7)) <= 1


def test_rows_that_are_astray_do_not_move_the_path():
    places = whole()
    given = rows(places)
    given[9] = rows([1])[0]
    given[15] = rows([LAST])[0]
    alignment = align(given, SPOKEN)
    assert (np.diff(alignment.path) >= 0).all() and (alignment.path == alignment.free_path).all()
    assert alignment.path[20:].tolist() == places[20:]


def test_the_path_never_goes_back_and_the_wandering_one_does():
    places = [*spoken_at(1, 2, 3, 5, 6, 7), *spoken_at(2, 3, 5, 6, 7, 9, 10), *whole()[-9:]]
    alignment = align(rows(places), SPOKEN)
    assert (np.diff(alignment.path) >= 0).all()
    assert (np.diff(alignment.free_path) < 0).any()
    assert (alignment.free_path == places).mean() > 0.95


def test_every_token_has_a_time_and_they_follow_each_other():
    times = align(rows(whole()), SPOKEN).times()
    assert times.shape == (len(SPOKEN), 2)
    assert (np.diff(times, axis=0) >= 0).all() and (times[:, 1] >= times[:, 0]).all()
    assert times[1].tolist() == [0, 2] and times[5].tolist() == [6, 8]
    assert times[4].tolist() == [6, 6]  # a blank without attention


def test_nearness_tells_a_head_that_follows_from_one_that_looks_anywhere():
    assert align(rows(whole()), SPOKEN).nearness.mean() > 0.9
    assert align(rows([-1] * 40), SPOKEN).nearness.mean() < 0.6


def test_attention_is_the_mean_of_the_heads_softmax():
    random = np.random.default_rng(0)
    queries, keys = random.normal(size=(5, 2, 8)), random.normal(size=(2, 7, 8))
    weights = attention(queries, keys)
    scores = np.stack([queries[:, head] @ keys[head].T for head in (0, 1)]) / np.sqrt(8)
    expected = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    assert weights == pytest.approx(expected.mean(0)) and weights.sum(-1) == pytest.approx(1.0)


def test_one_code_and_one_token_are_a_path():
    alignment = align(np.ones((1, 3)) / 3, [False, True, False])
    assert alignment.path.shape == (1,) and alignment.times().shape == (3, 2)
