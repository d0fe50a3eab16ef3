"""The figure of accent, on vowels made by numbers."""

import numpy as np
import pytest

from extras.accent.hearing import HeardVowels
from extras.accent.way import VowelSums

CLASSES = ("AA", "AE", "EH", "IY")
SENTENCES, SOUNDS = 12, 19


def voice(shift: float, seed: int, *, noise: float = 0.0, chance: float = 0.1) -> list[HeardVowels]:
    """A voice that is `shift` on the way from one accent to another, and `noise` on noise's way."""
    centres = np.random.default_rng(1).normal(size=(len(CLASSES), SOUNDS))
    way = np.random.default_rng(2).normal(size=centres.shape) * 0.3
    noisy = np.random.default_rng(3).normal(size=centres.shape) * 0.3 + 0.5 * way
    draw = np.random.default_rng(seed)
    heard = []
    for _ in range(SENTENCES):
        clean = centres + shift * way + noise * noisy + chance * draw.normal(size=way.shape)
        heard.append(HeardVowels(CLASSES, CLASSES, (clean, clean + noisy, clean + 0.8 * noisy)))
    return heard


@pytest.mark.parametrize("place", [0.0, 0.5, 1.0])
def test_a_candidate_is_where_it_was_put(place):
    figure = VowelSums(voice(0, 10), voice(1, 11), voice(place, 12)).accent_figure()
    assert figure is not None
    assert figure.place == pytest.approx(place, abs=0.1)
    assert figure.interval[0] <= figure.place <= figure.interval[1]
    assert sum(gone for gone, _ in figure.shares.values()) == pytest.approx(figure.place)
    assert sum(whole for _, whole in figure.shares.values()) == pytest.approx(1)


def test_the_base_is_at_0_and_the_person_at_1():
    base, person = voice(0, 10), voice(1, 11)
    assert [VowelSums(base, person, one).accent_figure().place for one in (base, person)] == pytest.approx(
        [0, 1]
    )


def test_noise_is_no_accent():
    figure = VowelSums(voice(0, 10), voice(1, 11), voice(0, 12, noise=1)).accent_figure()
    assert figure.place == pytest.approx(0, abs=0.1)


def test_equal_accents_have_a_wide_interval_or_none():
    figure = VowelSums(voice(0, 10), voice(0, 11), voice(1, 12)).accent_figure()
    assert figure is None or figure.interval[1] - figure.interval[0] > 1


def test_a_figure_is_the_same_twice():
    made = [VowelSums(voice(0, 10), voice(1, 11), voice(0.5, 12)).accent_figure() for _ in range(2)]
    assert made[0] == made[1]
