"""What the third column of an LJSpeech transcript is: the text in other words, or the speaker.

LJSpeech itself writes `id|text|normalised text`; many who use its layout write `id|text|speaker`.
Read wrongly, a voice would learn to say its speaker's name for every clip. Pure.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Literal

# Of the characters of a text and of its normalised form, so many are the same, whatever the order.
# LJSpeech's own: 0.98 (median); a name beside a sentence: below 0.2.
_SAME_CHARACTERS = 0.4
_MOST_LABEL_WORDS = 3
_MOST_LABEL_CHARACTERS = 40
_ENDINGS = tuple(".!?…。！？")

ThirdColumn = Literal["text", "speaker"]


def third_column(rows: Sequence[tuple[str, str]]) -> ThirdColumn | None:
    """Judges the rows (second field, third field) of a file, all together.

    Returns:
        "text", "speaker", or None when the column is neither: durations, phonemes, translations.
    """
    filled = [(text, third) for text, third in rows if third]
    if not filled:
        return "text"
    texts = sum(_says_the_same(text, third) for text, third in filled)
    if 2 * texts > len(filled):
        return "text"
    labels = [third for _, third in filled]
    # Everybody has a name of their own only in tiny datasets.
    repeated = len(set(labels)) < len(labels) or len(labels) == 1
    return "speaker" if repeated and all(map(_is_label, labels)) else None


def _says_the_same(text: str, third: str) -> bool:
    one, other = (Counter(part.lower()) for part in (text, third))
    shared = (one & other).total() / max(one.total(), other.total(), 1)
    return shared >= _SAME_CHARACTERS or (third.endswith(_ENDINGS) and len(third) > len(text) / 2)


def _is_label(third: str) -> bool:
    short = len(third) <= _MOST_LABEL_CHARACTERS and len(third.split()) <= _MOST_LABEL_WORDS
    return short and not third.endswith(_ENDINGS) and any(map(str.isalpha, third))
