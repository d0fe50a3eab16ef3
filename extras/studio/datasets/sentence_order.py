"""Orders sentences so that the first ones cover many sounds and pairs of sounds.

`python -m extras.studio.datasets.sentence_order` orders the files of
`extras/studio/datasets/sentences/`. The sounds of English are its phones
(`xtts.text.pronunciations`). This package has no phonemizer for the other languages, so their
sounds are letters: a good approximation in Spanish, a poor one in French; in Chinese and Japanese,
a letter is a character.
All functions except `main` are pure.
"""

import itertools
import sys
import unicodedata
from collections.abc import Callable, Sequence

from extras.studio.datasets.prompts import SENTENCES

Sounds = frozenset[str]
# Weights of a new sound and a new pair: every sound comes early, and many pairs.
_SOUND_WEIGHT, _PAIR_WEIGHT = 5.0, 1.0


def sounds_of(text: str, language: str) -> list[str]:
    """Phones in English, lower-case letters otherwise, with a space between words."""
    if language == "en":
        from xtts.text.pronunciations import to_phones

        return _letters(to_phones(text.lower()))
    return _letters(unicodedata.normalize("NFC", text).lower())


def _letters(text: str) -> list[str]:
    """The letters of a text. Vowel marks, as in Hindi and Arabic, count as letters."""
    sounding = ("L", "M")
    letters = (
        character if unicodedata.category(character)[0] in sounding or character in "&@" else " "
        for character in text
    )
    return list(" ".join("".join(letters).split()))


def units_of(sounds: Sequence[str]) -> Sounds:
    """The sounds, and the pairs of sounds within words."""
    pairs = (first + second for first, second in itertools.pairwise(sounds))
    return frozenset(unit for unit in (*sounds, *pairs) if " " not in unit)


def order_texts(texts: Sequence[str], units: Callable[[str], Sounds]) -> list[str]:
    """Orders texts greedily: next is always the text with the most new units for its length; of
    several, the first."""
    pending = [(text, units(text)) for text in texts]
    order, covered = list[str](), set[str]()
    while pending:
        best = max(pending, key=lambda candidate: _gain(candidate[1] - covered) / (len(candidate[0]) + 10))
        pending.remove(best)
        order.append(best[0])
        covered |= best[1]
    return order


def _gain(new: Sounds | set[str]) -> float:
    return sum(_SOUND_WEIGHT if len(unit) == 1 else _PAIR_WEIGHT for unit in new)


def main() -> int:
    """Rewrites every file in the new order."""
    for path in sorted(SENTENCES.glob("*.txt")):
        texts = path.read_text(encoding="utf-8").splitlines()
        order = order_texts(texts, lambda text, of=path.stem: units_of(sounds_of(text, of)))  # type: ignore[misc]
        path.write_text("\n".join(order) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
