"""Places of vowels in the mouth, for a chart that needs no phonetics.

A vowel's place is the mean of the places of the sounds that it is like, weighted by how much. x is 0
with the tongue in front and 1 with the tongue at the back; y is 0 with a closed mouth and 1 with an open one.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from extras.accent.hearing import HeardVowels
from extras.accent.vowel_model import VOWELS
from extras.accent.way import AccentFigure

_MAX_SHOWN_VOWELS = 8
_MIN_OCCURRENCES = 2
# The vowel chart of the International Phonetic Association; diphthongs are in the middle of their course.
_TONGUE_POSITIONS = {
    "AA": (0.75, 1.0), "AE": (0.25, 0.85), "AH": (0.6, 0.65), "AO": (1.0, 0.65), "AW": (0.6, 0.75),
    "AY": (0.4, 0.75), "EH": (0.2, 0.6), "ER": (0.5, 0.45), "EY": (0.1, 0.35), "IH": (0.15, 0.2),
    "IY": (0.0, 0.0), "OW": (0.9, 0.4), "OY": (0.7, 0.5), "UH": (0.8, 0.2), "UW": (0.9, 0.0),
}  # fmt: skip
# Most are those of Wells, Accents of English (1982).
_EXAMPLE_WORDS = {
    "AA": "lot", "AE": "trap", "AH": "strut", "AO": "thought", "AW": "mouth", "AY": "price", "BATH": "bath",
    "EH": "dress", "ER": "nurse", "ER.": "letter", "EY": "face", "IH": "kit", "IY": "fleece", "OW": "goat",
    "OY": "choice", "UH": "foot", "UW": "goose", "AAR": "start", "AOR": "north", "AWR": "hour", "AYR": "fire",
    "EHR": "square", "IHR": "near", "IYR": "near", "UHR": "cure",
}  # fmt: skip


def example_word(vowel: str) -> str:
    """A word with this vowel class."""
    return _EXAMPLE_WORDS.get(vowel, vowel.lower())


def chart_vowels(
    figure: AccentFigure,
    base: Sequence[HeardVowels],
    person: Sequence[HeardVowels],
    candidate: Sequence[HeardVowels],
) -> list[dict[str, object]]:
    """The vowels in which base and person differ most: each has an example, words of the sentences, the
    places `[x, y]` of the three voices, and whether it is in `AccentFigure.reached`."""
    voices = {"base": base, "person": person, "candidate": candidate}
    places = {name: _places(voice) for name, voice in voices.items()}
    shared = set.intersection(*(set(places_of_voice) for places_of_voice in places.values()))
    if not shared:
        return []
    # A voice's own mean does not count, as in `VowelSums`.
    means = {
        name: np.mean([places_of_voice[vowel] for vowel in shared], axis=0)
        for name, places_of_voice in places.items()
    }
    return [
        {
            "word": example_word(vowel),
            "said": most_frequent_words(person, vowel),
            "reached": vowel in figure.reached,
            **{
                name: np.round(places_of_voice[vowel] - means[name] + means["person"], 3).tolist()
                for name, places_of_voice in places.items()
            },
        }
        for vowel in sorted(shared, key=lambda vowel: -figure.shares[vowel][1])[:_MAX_SHOWN_VOWELS]
    ]


def _places(voice: Sequence[HeardVowels]) -> dict[str, np.ndarray]:
    """The mean place `[x, y]` of each vowel class with enough vowels."""
    places_by_vowel: dict[str, list[np.ndarray]] = {}
    sounds = np.array([_TONGUE_POSITIONS[vowel] for vowel in VOWELS])
    for heard in voice:
        # The likeness is a square root of probabilities; its first columns are the vowels'.
        odds = heard.likeness[0][:, : len(VOWELS)] ** 2
        for vowel, place in zip(heard.vowels, odds @ sounds / odds.sum(1, keepdims=True), strict=True):
            places_by_vowel.setdefault(vowel, []).append(place)
    return {
        vowel: np.mean(places, axis=0)
        for vowel, places in places_by_vowel.items()
        if len(places) >= _MIN_OCCURRENCES
    }


def most_frequent_words(voice: Sequence[HeardVowels], vowel: str) -> list[str]:
    """The three most frequent words with this vowel class in the sentences."""
    words = Counter(
        word
        for heard in voice
        for heard_vowel, word in zip(heard.vowels, heard.words, strict=True)
        if heard_vowel == vowel
    )
    return [word for word, _ in words.most_common(3)]
