"""Places of vowels in the mouth, for a chart that needs no phonetics.

A vowel's place is the mean of the places of the sounds that it is like, weighted by how much. x is 0
with the tongue in front and 1 with the tongue at the back; y is 0 with a closed mouth and 1 with an open one.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from extras.accent.hearing import Heard
from extras.accent.vowel_model import VOWELS
from extras.accent.way import Figure

# The vowels in which base and person differ most.
_MOST = 8
_MIN_HEARD = 2
# The vowel chart of the International Phonetic Association; diphthongs are in the middle of their course.
_PLACES = {
    "AA": (0.75, 1.0), "AE": (0.25, 0.85), "AH": (0.6, 0.65), "AO": (1.0, 0.65), "AW": (0.6, 0.75),
    "AY": (0.4, 0.75), "EH": (0.2, 0.6), "ER": (0.5, 0.45), "EY": (0.1, 0.35), "IH": (0.15, 0.2),
    "IY": (0.0, 0.0), "OW": (0.9, 0.4), "OY": (0.7, 0.5), "UH": (0.8, 0.2), "UW": (0.9, 0.0),
}  # fmt: skip
# Most are those of Wells, Accents of English (1982).
_WORDS = {
    "AA": "lot", "AE": "trap", "AH": "strut", "AO": "thought", "AW": "mouth", "AY": "price", "BATH": "bath",
    "EH": "dress", "ER": "nurse", "ER.": "letter", "EY": "face", "IH": "kit", "IY": "fleece", "OW": "goat",
    "OY": "choice", "UH": "foot", "UW": "goose", "AAR": "start", "AOR": "north", "AWR": "hour", "AYR": "fire",
    "EHR": "square", "IHR": "near", "IYR": "near", "UHR": "cure",
}  # fmt: skip


def word_of(vowel: str) -> str:
    """A word with a vowel class."""
    return _WORDS.get(vowel, vowel.lower())


def vowels_of(
    figure: Figure, base: Sequence[Heard], person: Sequence[Heard], candidate: Sequence[Heard]
) -> list[dict[str, object]]:
    """The vowels in which base and person differ most: each has an example, words of the sentences, the
    places `[x, y]` of the three voices, and whether it is in `Figure.reached`."""
    voices = {"base": base, "person": person, "candidate": candidate}
    places = {name: _places(voice) for name, voice in voices.items()}
    shared = set.intersection(*(set(places_of_voice) for places_of_voice in places.values()))
    if not shared:
        return []
    # A voice's own mean does not count, as in `Way`.
    means = {name: np.mean([one[vowel] for vowel in shared], axis=0) for name, one in places.items()}
    return [
        {
            "word": word_of(vowel),
            "said": _said(person, vowel),
            "reached": vowel in figure.reached,
            **{
                name: np.round(one[vowel] - means[name] + means["person"], 3).tolist()
                for name, one in places.items()
            },
        }
        for vowel in sorted(shared, key=lambda vowel: -figure.shares[vowel][1])[:_MOST]
    ]


def _places(voice: Sequence[Heard]) -> dict[str, np.ndarray]:
    """The mean place `[x, y]` of each vowel class with enough vowels."""
    of_vowel: dict[str, list[np.ndarray]] = {}
    sounds = np.array([_PLACES[vowel] for vowel in VOWELS])
    for heard in voice:
        # Square roots of probabilities, of the vowels first.
        odds = heard.likeness[0][:, : len(VOWELS)] ** 2
        for vowel, place in zip(heard.vowels, odds @ sounds / odds.sum(1, keepdims=True), strict=True):
            of_vowel.setdefault(vowel, []).append(place)
    return {vowel: np.mean(each, axis=0) for vowel, each in of_vowel.items() if len(each) >= _MIN_HEARD}


def _said(person: Sequence[Heard], vowel: str) -> list[str]:
    """The words of the sentences that have this vowel most often."""
    words = Counter(
        word
        for heard in person
        for each, word in zip(heard.vowels, heard.words, strict=True)
        if each == vowel
    )
    return [word for word, _ in words.most_common(3)]
