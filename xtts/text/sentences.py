"""Where a sentence ends: the single rule for splitting, streams, books and normalisation.

A full stop after an abbreviation, an initial or an ordinal ends a sentence only if the next word
begins one plausibly. A missed end costs a long sentence; a false end cuts a name or a date, so the
rule decides for going on when in doubt.
"""

import re
from collections.abc import Iterable, Iterator

from xtts.text.sentence_words import NEVER_LAST, OFTEN_LAST, SOMETIMES_LAST, STARTERS

# Signs that end a sentence, with closing quotes and brackets. Chinese and Japanese signs need no
# space; others do, because "3.5" is a number.
_SIGN = re.compile(r"[.!?…؟।]+[\"'”’»)\]]*(?=\s|$)|[。！？]+[」』”’）\"»)]*")
_NO_SPACE = "。！？"
_NEXT = re.compile(r"[\s\"'“‘«„‚¿¡(\[—–-]*(\w[\w'’]*)?")
_LAST_WORD = re.compile(r"[^\s(\[\"'“‘«„/]+$")
# "z. B", "и т. д"
_SPACED = re.compile(r"(?<!\w)(?:[^\W\d_]{1,2}\.\s?){1,3}[^\W\d_]{1,4}$")
_DOTTED = re.compile(r"(?:[^\W\d_]{1,4}\.)+[^\W\d_]{1,4}")
# As far back as a word is looked for, because a sentence may have 40 MB.
_REACH = 40
# Languages in which a number with a full stop is an ordinal.
_ORDINAL_DOT = "de cs pl hu tr sk hr sl sr bs da nb no fi et lv is".split()


class SentenceEnds:
    """The ends of sentences in one language.

    language: by ISO 639-1, "" if unknown; abbreviations: with their full stops, `#` at the end if a
    number must follow.
    """

    def __init__(self, language: str, abbreviations: Iterable[str] = ()) -> None:
        self._nouns_have_capitals = language in ("de", "")
        self._ordinals = language in _ORDINAL_DOT or not language
        every = {*map(str.casefold, abbreviations), *words_of(SOMETIMES_LAST, language)}
        numbered = {abbreviation for abbreviation in every if abbreviation.endswith("#")}
        self._before_number = {abbreviation[:-1] for abbreviation in numbered}
        self._never = set(words_of(NEVER_LAST, language))
        self._closing = set(words_of(OFTEN_LAST, language))
        plain = (every - numbered) | self._never | self._closing
        # Also the last word of "z. B." and "p. ex."
        self._abbreviations = plain | {abbreviation.split()[-1] for abbreviation in plain}
        self._starters = frozenset(words_of(STARTERS, language))

    def places(self, text: str, *, whole: bool = True) -> Iterator[int]:
        """The positions after the signs that end a sentence, with their closing quotes. whole:
        whether the text is complete; otherwise an end that its next word decides is left out until
        that word is there."""
        lower = not any(character.isupper() for character in text[:2_000])
        for sign in _SIGN.finditer(text):
            if not whole and sign.end() == len(text) and sign[0][0] not in _NO_SPACE:
                return  # "3.5" or "example.org" may follow
            if self._ends(text, sign.start(), sign.end(), whole=whole, lower=lower):
                yield sign.end()

    def parts(self, text: str) -> list[str]:
        """The sentences of a text; joined, they equal it. Spaces begin the next sentence."""
        places = [0, *self.places(text)]
        ends = [*places[1:], len(text)]
        sentences = [text[start:end] for start, end in zip(places, ends, strict=True)]
        return [sentence for sentence in sentences if sentence]

    def ends_after(self, text: str, place: int) -> bool:
        """Whether the full stop before `place` ends a sentence. It belongs to an abbreviation."""
        return self._ends(text, place - 1, place, whole=True, lower=False)

    def _ends(self, text: str, start: int, end: int, *, whole: bool, lower: bool) -> bool:
        sign = text[start]
        if sign in _NO_SPACE:
            return True
        follows = _NEXT.match(text, end, end + 120)
        word = (follows[1] if follows else None) or ""
        # In a stream, the next word may not be complete.
        seen = whole or (bool(word) and follows is not None and follows.end(1) < len(text))
        if not word and whole and not text[end:].strip():
            return True
        if word[:1].islower() and not lower:
            return False
        if sign != "." or text[start : start + 2] in ("..", ".!", ".?"):
            return True
        before = _LAST_WORD.search(text[max(0, start - _REACH) : start])
        written = before[0].lstrip("{<*_") if before else ""
        kind = self._kind(written, text[max(0, start - _REACH) : start])
        if kind == "word":
            return True
        if not seen:
            return False
        if kind == "never":
            return False
        if kind == "counts":
            return not word[:1].isdigit()
        starts = word.casefold() in self._starters and (lower or not word.islower())
        if kind == "closing" and not self._nouns_have_capitals:
            return starts or (word[:1].isupper() and not _GOES_ON.fullmatch(word))
        return starts

    def _kind(self, written: str, before: str) -> str:
        """The kind of the word before a full stop. before: the text that ends with it."""
        last = written.casefold()
        spaced = _SPACED.search(before)
        joined = re.sub(r"\s", "", spaced[0]).casefold() + "." if spaced else ""
        name = "str." if last.endswith("str") else f"{last}."
        for abbreviation in filter(None, (joined, name)):
            if abbreviation in self._never:
                return "never"
            if abbreviation in self._closing or abbreviation in _HALVES_OF_A_DAY:
                return "closing"
        if last.isdigit():
            # A year or a large number is rarely an ordinal.
            return "maybe" if self._ordinals and len(last) <= 2 else "word"
        if name in self._abbreviations:
            return "maybe"
        if name in self._before_number:
            return "counts"
        if len(written) == 1 and written != "I":
            return "never" if written.isupper() else "maybe"
        return "maybe" if _DOTTED.fullmatch(last) else "word"


def words_of(tables: dict[str, str], language: str) -> list[str]:
    """The words of a language, in lower case; of all languages if it is unknown."""
    rows = tables.values() if not language else (tables.get(language, ""), tables.get("*", ""))
    return [word for row in rows for word in row.casefold().split()]


_HALVES_OF_A_DAY = ("a.m.", "p.m.")
# These continue a sentence after "9 p.m.".
_GOES_ON = re.compile(
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)day|mon|tue|wed|thu|fri|sat|sun|[ecmp][sd]?t|gmt|utc|"
    r"cet|cest|bst|ist|eastern|pacific|central|mountain|january|february|march|april|june|july|"
    r"august|september|october|november|december",
    re.I,
)
