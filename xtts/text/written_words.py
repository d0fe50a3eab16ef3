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

# A word of the reading: (word, number of its piece, its spoken positions). Positions count START,
# the ids and STOP.
SpokenWord = tuple[str, int, Sequence[int]]


@dataclass(frozen=True)
class WordSpan:
    """A word in a sequence of ids. first, last: its first and last spoken position, counting START,
    the ids and STOP; text: its tokens, which are letters or phones."""

    text: str
    first: int
    last: int


def read_words(read: str) -> list[str]:
    """The words of a normalised text."""
    return _READ_WORD.findall(read.replace("\u2019", "'"))


def written_words(text: str, short: str) -> list[str]:
    """The words of a text without surrounding punctuation; in Chinese, each character is a word.

    Args:
        text: Without markup.
        short: The language, by ISO 639-1.
    """
    written = []
    for part in _BETWEEN.split(text):
        word = part.strip(_EDGES)
        if not any(map(_is_read, word)):
            continue
        at = part.index(word)
        if _INITIALS.search(part[at : at + len(word) + 1]):
            word = part[at : at + len(word) + 1]
        if short == "zh":
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
    for piece, its_ids in enumerate(ids):
        begun = list[int]()
        for position, id_ in enumerate([*its_ids, None], start=1):
            if id_ is not None and id_ not in silent:
                begun.append(position)
            elif begun and (id_ is None or tokens[id_] not in _APOSTROPHES):
                spans.append(("".join(tokens[its_ids[place - 1]] for place in begun), piece, begun))
                begun = []
    words = read_words(read)
    if len(words) == len(spans):
        return [(word, piece, at) for word, (_, piece, at) in zip(words, spans, strict=True)]
    return spans


def place(
    written: Sequence[str], spans: Sequence[SpokenWord], count: Callable[[str], int], pieces: int
) -> list[list[WordSpan]]:
    """The written words in each piece, in order. "" continues the previous word; `last` is
    `first` - 1 if the word is not spoken.

    Args:
        written: The words as they are written.
        spans: The words as they are read.
        count: Counts the words that a written word is read as; 0 if unknown.
        pieces: The number of pieces.
    """
    piece_spans: list[list[WordSpan]] = [[] for _ in range(pieces)]
    if not spans or not written:
        return piece_spans
    positions = [(piece, place) for _, piece, places in spans for place in places]
    # The number of positions before each span.
    begins = list(accumulate((len(places) for _, _, places in spans), initial=0))
    ends = _share_out(written, [word for word, _, _ in spans], begins, count)
    for word, start, end in zip(written, [0, *ends], ends, strict=False):
        if start >= end:
            # Not spoken: placed between the previous word and the next.
            piece, place = positions[min(start, len(positions) - 1)]
            first = place if start < len(positions) else place + 1
            piece_spans[piece].append(WordSpan(word, first, first - 1))
        for piece, run in groupby(positions[start:end], key=itemgetter(0)):
            places = [place for _, place in run]
            piece_spans[piece].append(WordSpan(word, places[0], places[-1]))
            word = ""
    return piece_spans


def _share_out(
    written: Sequence[str], read: Sequence[str], begins: Sequence[int], count: Callable[[str], int]
) -> list[int]:
    """The end position (exclusive) of each written word. Every position belongs to a word: words
    that are read but not written belong to the previous word."""
    ends = list[int]()
    matcher = SequenceMatcher(None, list(map(_key, written)), list(map(_key, read)), autojunk=False)
    for kind, first, last, begin, end in matcher.get_opcodes():
        if kind == "insert":
            if ends:
                ends[-1] = begins[end]
        elif kind == "equal":
            ends += begins[begin + 1 : end + 1]
        else:
            ends += _parts(written[first:last], begins[begin : end + 1], count)
    ends[-1] = begins[-1]
    return ends


def _parts(words: Sequence[str], begins: Sequence[int], count: Callable[[str], int]) -> list[int]:
    """The end positions of the words between two anchors."""
    spans = len(begins) - 1
    if len(words) == 1:
        return [begins[-1]]
    counts = [count(word) for word in words]
    if sum(counts) == spans:
        return [begins[end] for end in accumulate(counts)]
    weights = [_weight(word) for word in words]
    if spans >= len(words):
        return [begins[end] for end in _cuts(weights, spans, 1)]
    return [begins[0] + end for end in _cuts(weights, begins[-1] - begins[0], 0)]


def _cuts(weights: Sequence[int], total: int, least: int) -> list[int]:
    """Divides `total` items by weight, at least `least` for each; returns the ends of the
    shares."""
    free, whole = total - least * len(weights), sum(weights)
    ends = enumerate(accumulate(weights), start=1)
    return [least * number + round(free * weight / whole) for number, weight in ends]


def _is_read(character: str) -> bool:
    kind = category(character)
    return kind in ("Sc", "Sm") or kind[0] in "LN" or character in _SPOKEN_SIGNS


def _key(word: str) -> str:
    return "".join(character for character in word.casefold() if character.isalnum()) or word


def _weight(word: str) -> int:
    return sum(_DIGIT_WEIGHT if character.isdigit() else 1 for character in word) or 1
