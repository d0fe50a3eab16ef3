"""Aligns the written words of a text with the token ids of its normalised reading.

"$5" is read as two words, and "Dr." as another word. Words that are read as they are written anchor
the alignment; the read words between two anchors are divided among the written ones.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import accumulate, groupby
from operator import itemgetter
from typing import NamedTuple
from unicodedata import category

_READ_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
# Punctuation that is stripped from words. Symbols that are read aloud (%, &, currencies) are words.
_EDGES = ".,;:!?…·¡¿\"'()[]{}<>«»“”„‘’‚‹›*_~|\\/-–—،؛؟。，、！？：；（）「」『』《》"
_BETWEEN = re.compile(r"[\s…—。，、！？：；]+")
_INITIALS = re.compile(r"(?:[^\W\d_]\.){2,}$")
_SPOKEN_SIGNS = frozenset("%&@#°§")
_HAN_LETTERS = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_HAN = re.compile(f"[{_HAN_LETTERS}]|[^{_HAN_LETTERS}]+")
# Punctuation inside a word.
_APOSTROPHES = ("'", "\u2019")
# The approximate number of letters in the word for a digit.
_DIGIT_WEIGHT = 4


class SpokenWord(NamedTuple):
    """A word of the reading.

    Attributes:
        piece: The number of its piece.
        positions: Its spoken positions in the piece, counting START, the ids and STOP.
    """

    word: str
    piece: int
    positions: Sequence[int]


@dataclass(frozen=True)
class WordSpan:
    """A word in a sequence of ids.

    Attributes:
        text: Its tokens, which are letters or phones.
        first, last: Its first and last spoken position, counting START, the ids and STOP.
    """

    text: str
    first: int
    last: int


def read_words(read: str) -> list[str]:
    """The words of a normalised text."""
    return _READ_WORD.findall(read.replace("\u2019", "'"))


def written_words(text: str, language_code: str) -> list[str]:
    """The words of a text without surrounding punctuation; in Chinese, each character is a word.

    Args:
        text: Without markup.
        language_code: The language, by ISO 639-1.
    """
    written = []
    for part in _BETWEEN.split(text):
        word = part.strip(_EDGES)
        if not any(map(_is_read, word)):
            continue
        at = part.index(word)
        if _INITIALS.search(part[at : at + len(word) + 1]):
            word = part[at : at + len(word) + 1]
        if language_code == "zh":
            written += [character for character in _HAN.findall(word) if any(map(_is_read, character))]
        else:
            written.append(word)
    return written


def spoken_spans(
    read: str, ids: Sequence[Sequence[int]], tokens: Mapping[int, str], silent: Collection[int]
) -> list[SpokenWord]:
    """The words in the ids of some pieces: runs of ids between spaces and symbols.

    Args:
        read: The normalised text of the pieces, in letters even if the ids are phones.
        ids: The ids of each piece.
        tokens: The token of each id.
        silent: The ids that are not spoken.
    """
    spans = list[SpokenWord]()
    for piece, piece_ids in enumerate(ids):
        positions = list[int]()
        for position, id_ in enumerate([*piece_ids, None], start=1):
            if id_ is not None and id_ not in silent:
                positions.append(position)
            elif positions and (id_ is None or tokens[id_] not in _APOSTROPHES):
                word = "".join(tokens[piece_ids[position - 1]] for position in positions)
                spans.append(SpokenWord(word, piece, positions))
                positions = []
    words = read_words(read)
    if len(words) == len(spans):
        return [span._replace(word=word) for word, span in zip(words, spans, strict=True)]
    return spans


def place_words(
    written: Sequence[str], spans: Sequence[SpokenWord], count: Callable[[str], int], pieces: int
) -> list[list[WordSpan]]:
    """The written words of each piece, in order. A word "" continues the previous one; `last` is
    `first` - 1 if a word is not spoken.

    Args:
        written: The words as they are written.
        spans: The words as they are read.
        count: Counts the words that a written word is read as; 0 if unknown.
        pieces: The number of pieces.
    """
    piece_spans: list[list[WordSpan]] = [[] for _ in range(pieces)]
    if not spans or not written:
        return piece_spans
    positions = [(span.piece, position) for span in spans for position in span.positions]
    # The number of positions before each span.
    begins = list(accumulate((len(span.positions) for span in spans), initial=0))
    ends = _share_out(written, [span.word for span in spans], begins, count)
    for word, start, end in zip(written, [0, *ends], ends, strict=False):
        if start >= end:
            # Not spoken: placed between the previous word and the next.
            piece, position = positions[min(start, len(positions) - 1)]
            first = position if start < len(positions) else position + 1
            piece_spans[piece].append(WordSpan(word, first, first - 1))
        for piece, run in groupby(positions[start:end], key=itemgetter(0)):
            piece_positions = [position for _, position in run]
            piece_spans[piece].append(WordSpan(word, piece_positions[0], piece_positions[-1]))
            word = ""
    return piece_spans


def _share_out(
    written: Sequence[str], read: Sequence[str], begins: Sequence[int], count: Callable[[str], int]
) -> list[int]:
    """The end position (exclusive) of each written word. Every position belongs to a word: words
    that are read but not written belong to the previous word."""
    ends = list[int]()
    matcher = SequenceMatcher(
        None, list(map(_comparison_key, written)), list(map(_comparison_key, read)), autojunk=False
    )
    for kind, first, last, begin, end in matcher.get_opcodes():
        if kind == "insert":
            if ends:
                ends[-1] = begins[end]
        elif kind == "equal":
            ends += begins[begin + 1 : end + 1]
        else:
            ends += _divide(written[first:last], begins[begin : end + 1], count)
    ends[-1] = begins[-1]
    return ends


def _divide(words: Sequence[str], begins: Sequence[int], count: Callable[[str], int]) -> list[int]:
    """The end positions of the words between two anchors."""
    spans = len(begins) - 1
    if len(words) == 1:
        return [begins[-1]]
    counts = [count(word) for word in words]
    if sum(counts) == spans:
        return [begins[end] for end in accumulate(counts)]
    weights = [_weight(word) for word in words]
    if spans >= len(words):
        return [begins[end] for end in _divide_by_weight(weights, spans, 1)]
    return [begins[0] + end for end in _divide_by_weight(weights, begins[-1] - begins[0], 0)]


def _divide_by_weight(weights: Sequence[int], total: int, minimum: int) -> list[int]:
    """Divides `total` items by weight, at least `minimum` for each; returns the ends of the
    shares."""
    free, total_weight = total - minimum * len(weights), sum(weights)
    ends = enumerate(accumulate(weights), start=1)
    return [minimum * number + round(free * weight / total_weight) for number, weight in ends]


def _is_read(character: str) -> bool:
    kind = category(character)
    return kind in ("Sc", "Sm") or kind[0] in "LN" or character in _SPOKEN_SIGNS


def _comparison_key(word: str) -> str:
    return "".join(character for character in word.casefold() if character.isalnum()) or word


def _weight(word: str) -> int:
    return sum(_DIGIT_WEIGHT if character.isdigit() else 1 for character in word) or 1
