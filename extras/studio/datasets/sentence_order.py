"""Orders sentences so that many sounds and pairs of sounds are among the first.

`python -m extras.studio.datasets.sentence_order` orders the files of
`extras/studio/datasets/sentences/`. English is compared by its phones (`xtts.text.phonemes`). No
phonemizer of the other languages is in this package: they are compared by letters, which stand for
sounds well in Spanish, and badly in French; for Chinese and Japanese a letter is a character. All
functions are pure but for `main`.
"""

import itertools
import sys
import unicodedata
from collections.abc import Callable, Sequence

from extras.studio.datasets.prompts import SENTENCES

Sounds = frozenset[str]
# A sound that has not been read yet, against a pair: every sound early, and many pairs.
_SOUND, _PAIR = 5.0, 1.0


def sounds_of(text: str, language: str) -> list[str]:
    """Phones in English, letters otherwise, in small letters; a space between words."""
    if language == "en":
        from xtts.text.phonemes import to_phones

        return _letters(to_phones(text.lower()))
    return _letters(unicodedata.normalize("NFC", text).lower())


def _letters(text: str) -> list[str]:
    """Marks of vowels in Hindi and Arabic belong to letters: each is a sound by itself."""
    sounding = ("L", "M")
    kept = (one if unicodedata.category(one)[0] in sounding or one in "&@" else " " for one in text)
    return list(" ".join("".join(kept).split()))


def units_of(sounds: Sequence[str]) -> Sounds:
    """The sounds and the pairs of sounds inside words."""
    pairs = (one + other for one, other in itertools.pairwise(sounds))
    return frozenset(unit for unit in (*sounds, *pairs) if " " not in unit)


def ordered(texts: Sequence[str], units: Callable[[str], Sounds]) -> list[str]:
    """Greedy: next comes the sentence with the most that is new, for its length; of several, the
    first."""
    left = [(text, units(text)) for text in texts]
    order, heard = list[str](), set[str]()
    while left:
        best = max(left, key=lambda one: _gain(one[1] - heard) / (len(one[0]) + 10))
        left.remove(best)
        order.append(best[0])
        heard |= best[1]
    return order


def _gain(new: Sounds | set[str]) -> float:
    return sum(_SOUND if len(unit) == 1 else _PAIR for unit in new)


def main() -> int:
    """Writes every file again, in its order."""
    for path in sorted(SENTENCES.glob("*.txt")):
        texts = path.read_text(encoding="utf-8").splitlines()
        order = ordered(texts, lambda text, of=path.stem: units_of(sounds_of(text, of)))  # type: ignore[misc]
        path.write_text("\n".join(order) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
