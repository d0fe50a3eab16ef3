"""Splits long text into pieces that the model can speak: sentences, clauses, words.

The caller provides the function that counts tokens. It is called only for parts that are short
enough for a piece, so the time is linear in the length of the text.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xtts.text.sentences import SentenceEnds

# Where to cut, best first: sentence ends, clause ends, any space. The patterns match no characters,
# so the joined parts equal the text, also in languages without spaces.
_BREAKS = (
    # Sentences of normalised text, without abbreviations; `Limits.sentences` cuts written text.
    re.compile(r"(?<=[.!?…؟।])(?=\s)|(?<=[。！？])"),
    re.compile(r"(?<=[,;:،])(?=\s)|(?<=[、，；：])"),
    re.compile(r"(?=\s)"),
)
_WORD_LEVEL = len(_BREAKS) - 1
# A space inside no date, name or amount, unlike those in "29. Juli", "Dr. Smith", "10 USD".
_FREE_SPACE = re.compile(r"(?<![0-9.$€£№§#])(?=\s(?![12][0-9]{3}(?!\w)))")
# How far a cut inside a word may move to a better position, as a share of the slice.
_SLACK = 0.25


@dataclass(frozen=True)
class Limits:
    """The limits of a piece.

    Attributes:
        count: Counts the tokens of a text.
        sentences: Where the sentences of a written text end; None for a normalised text.
    """

    characters: int
    tokens: int
    count: Callable[[str], int] = len
    sentences: SentenceEnds | None = None

    def fits(self, text: str) -> bool:
        """Whether the text can be a piece."""
        return self.is_short(text) and self.count(text) <= self.tokens

    def is_short(self, text: str) -> bool:
        """Whether the text has few enough characters; the tokens of a longer text are not
        counted."""
        return len(text.strip()) <= self.characters


def cut(text: str, limits: Limits, level: int = 0) -> list[str]:
    """Cuts `text` into pieces that fit the limits; joined, they equal `text`. A single character is
    never cut."""
    if limits.fits(text):
        return [text]
    if level > _WORD_LEVEL:
        return _slice(text, limits)
    parts = _split(text, limits, level)
    costs = [limits.count(part) if limits.is_short(part) else limits.tokens + 1 for part in parts]
    pieces: list[str] = []
    for group in _group(parts, costs, limits, is_even=level == _WORD_LEVEL):
        pieces += _merge(group, limits, level)
    return pieces


def _split(text: str, limits: Limits, level: int) -> list[str]:
    if limits.sentences is None:
        breaks = _BREAKS[level]
    elif level == 0:
        return limits.sentences.parts(text)
    else:
        breaks = _FREE_SPACE if level == _WORD_LEVEL else _BREAKS[level]
    return [part for part in breaks.split(text) if part]


def _merge(parts: Sequence[str], limits: Limits, level: int) -> list[str]:
    """Joins parts into one piece, or into several if they have more tokens together than apart
    ("$", "5")."""
    text = "".join(parts)
    if len(parts) == 1:
        return cut(text, limits, level + 1)
    if limits.fits(text):
        return [text]
    half = len(parts) // 2
    return _merge(parts[:half], limits, level) + _merge(parts[half:], limits, level)


def _group(parts: Sequence[str], costs: Sequence[int], limits: Limits, *, is_even: bool) -> list[list[str]]:
    """Groups adjacent parts that fit into a piece. is_even: makes pieces of similar length, because a
    single remaining word is spoken badly."""
    tokens_per_piece = float(limits.tokens)
    if is_even:
        total, length = sum(costs), sum(map(len, parts))
        num_pieces = max(math.ceil(total / limits.tokens), math.ceil(length / limits.characters))
        tokens_per_piece = total / num_pieces
    groups: list[list[str]] = []
    tokens = characters = tokens_before = 0
    for part, cost in zip(parts, costs, strict=True):
        is_full = tokens + cost > limits.tokens or characters + len(part) > limits.characters
        has_share = is_even and tokens_before + cost / 2 > tokens_per_piece * len(groups)
        if not groups or is_full or has_share:
            groups.append([])
            tokens = characters = 0
        groups[-1].append(part)
        tokens, characters, tokens_before = tokens + cost, characters + len(part), tokens_before + cost
    return groups


def _slice(word: str, limits: Limits) -> list[str]:
    """Cuts a word that is too long for a piece into slices of similar length."""
    if len(word) <= 1 or limits.fits(word):
        return [word]
    count = math.ceil(len(word) / limits.characters)
    if count == 1:
        count = max(2, math.ceil(limits.count(word) / limits.tokens))
    size = len(word) / min(count, len(word))
    places = [0]
    for number in range(1, math.ceil(len(word) / size)):
        place = _nearest_start(word, round(number * size), int(size * _SLACK))
        if places[-1] < place < len(word):
            places.append(place)
    if len(places) == 1:
        places.append(len(word) // 2)
    ends = [*places[1:], len(word)]
    slices = [word[start:end] for start, end in zip(places, ends, strict=True)]
    return [piece for part in slices for piece in _slice(part, limits)]


def _nearest_start(word: str, place: int, slack: int) -> int:
    """The nearest position at which a part of a word begins ("well-known", "5€6€"), else `place`."""
    for distance in range(slack + 1):
        for near in (place - distance, place + distance):
            if 0 < near < len(word) and word[near].isalnum() and not word[near - 1].isalnum():
                return near
    return place
