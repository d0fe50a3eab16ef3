"""The places of vowels for the chart."""

import numpy as np
import pytest

from extras.accent.chart import chart_vowels, example_word
from extras.accent.hearing import HeardVowels
from extras.accent.vowel_model import VOWELS
from extras.accent.way import AccentFigure

SHARES = {"BATH": (0.4, 0.6), "IY": (0.1, 0.3), "UW": (0.0, 0.1)}


def voice(**sounds: str) -> list[HeardVowels]:
    """Two sentences, in which each vowel is heard as one sound."""
    likeness = np.array([[float(sound == name) for name in (*VOWELS, "R")] for sound in sounds.values()])
    return [HeardVowels(tuple(sounds), tuple(f"a-{vowel}" for vowel in sounds), (likeness,))] * 2


@pytest.fixture
def vowels():
    figure = AccentFigure(0.5, (0.4, 0.6), SHARES, ("BATH",))
    base = voice(BATH="AE", IY="IY", UW="UW")
    person = voice(BATH="AA", IY="IY", UW="UW")
    return chart_vowels(figure, base, person, person)


def test_the_vowels_that_differ_most_come_first(vowels):
    assert [vowel["word"] for vowel in vowels] == ["bath", "fleece", "goose"]
    assert [vowel["reached"] for vowel in vowels] == [True, False, False]
    assert vowels[0]["said"] == ["a-BATH"]


def test_a_vowel_is_where_its_sounds_are(vowels):
    bath, fleece, goose = vowels
    assert bath["person"] == bath["candidate"] == [0.75, 1.0]
    assert fleece["person"] == [0.0, 0.0]
    assert goose["person"] == [0.9, 0.0]
    # The mean of a voice does not count: the base is moved to the person's.
    assert bath["base"][0] < bath["person"][0]
    assert np.mean([vowel["base"] for vowel in vowels], axis=0) == pytest.approx([0.55, 1 / 3], abs=0.001)


def test_rare_vowels_have_no_place():
    figure = AccentFigure(0.5, (0.4, 0.6), SHARES, ())
    once = voice(BATH="AE")[:1]
    assert chart_vowels(figure, once, once, once) == []


def test_every_class_has_a_word():
    assert example_word("ER.") == "letter"
    assert example_word("OYR") == "oyr"
