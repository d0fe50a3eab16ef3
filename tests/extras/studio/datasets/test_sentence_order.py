"""The order of sentences to read: many sounds and pairs of sounds come early."""

import random

import pytest

from extras.studio.datasets.prompts import SENTENCES, built_in_sentences
from extras.studio.datasets.sentence_order import order_texts, sounds_of, units_of

LANGUAGES = sorted(path.stem for path in SENTENCES.glob("*.txt"))
EARLY = 10


def early(texts, units) -> int:
    """The number of sounds and pairs in the first sentences."""
    return len(set().union(*map(units, texts[:EARLY])))


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_files_are_in_that_order_and_it_covers_more_than_others(language):
    texts = list(built_in_sentences(language))

    def units(text: str) -> frozenset[str]:
        return units_of(sounds_of(text, language))

    assert order_texts(texts, units) == texts
    draw = random.Random(1)
    others = [early(draw.sample(texts, len(texts)), units) for _ in range(20)]
    alphabetic = early(sorted(texts), units)
    assert early(texts, units) > max(max(others), alphabetic)


def test_english_is_ordered_by_phones():
    """The first five sentences contain all forty phones."""
    texts = built_in_sentences("en")
    sounds = [set(sounds_of(text, "en")) - {" "} for text in texts]
    assert len(set().union(*sounds)) == 40 and set().union(*sounds[:5]) == set().union(*sounds)


def test_what_is_new_comes_first():
    texts = ["aa aa", "ab ba", "ab cd", "aa"]
    assert order_texts(texts, lambda text: units_of(sounds_of(text, "it")))[0] == "ab cd"
    assert units_of(list("ab c")) == {"a", "b", "c", "ab"}
    assert sounds_of("Que ça!", "fr") == list("que ça") and "X" in sounds_of("boy", "en")
