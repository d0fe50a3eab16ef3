"""Where a sentence ends: the single rule for splitting, streams, books and normalisation.

A full stop after an abbreviation, an initial or an ordinal ends a sentence only if the next word
begins one plausibly. A missed end costs a long sentence; a false end cuts a name or a date, so the
rule decides for going on when in doubt.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Literal

from xtts.text.sentence_words import NEVER_LAST, OFTEN_LAST, SOMETIMES_LAST, STARTERS

# Signs that end a sentence, with closing quotes and brackets. Chinese and Japanese signs need no
# space; others do, because "3.5" is a number.
_END_SIGN = re.compile(r"[.!?…؟।]+[\"'”’»)\]]*(?=\s|$)|[。！？]+[」』”’）\"»)]*")
_SIGNS_WITHOUT_SPACE = "。！？"
_NEXT_WORD = re.compile(r"[\s\"'“‘«„‚¿¡(\[—–-]*(\w[\w'’]*)?")
_LAST_WORD = re.compile(r"[^\s(\[\"'“‘«„/]+$")
# "z. B", "и т. д"
_SPACED_ABBREVIATION = re.compile(r"(?<!\w)(?:[^\W\d_]{1,2}\.\s?){1,3}[^\W\d_]{1,4}$")
_DOTTED_ABBREVIATION = re.compile(r"(?:[^\W\d_]{1,4}\.)+[^\W\d_]{1,4}")
# How many characters before a full stop are searched for its word: a sentence may have 40 MB.
_MAX_WORD_CHARACTERS = 40
# The word before a full stop: no abbreviation, or as in the tables of `sentence_words`; before_number is an
# abbreviation that a number must follow.
WordKind = Literal["plain", "never_last", "often_last", "sometimes_last", "before_number"]
# Languages in which a number with a full stop is an ordinal.
_LANGUAGES_WITH_ORDINAL_DOT = "de cs pl hu tr sk hr sl sr bs da nb no fi et lv is".split()


class SentenceEnds:
    """The ends of sentences in one language.

    language: by ISO 639-1, "" if unknown; abbreviations: with their full stops, and with `#` at the end
    if a number must follow.
    """

    def __init__(self, language: str, abbreviations: Iterable[str] = ()) -> None:
        self._nouns_have_capitals = language in ("de", "")
        self._has_ordinal_dot = language in _LANGUAGES_WITH_ORDINAL_DOT or not language
        sometimes_last = {*map(str.casefold, abbreviations), *words_of(SOMETIMES_LAST, language)}
        with_mark = {abbreviation for abbreviation in sometimes_last if abbreviation.endswith("#")}
        self._before_number = {abbreviation[:-1] for abbreviation in with_mark}
        self._never_last = set(words_of(NEVER_LAST, language))
        self._often_last = set(words_of(OFTEN_LAST, language))
        names = (sometimes_last - with_mark) | self._never_last | self._often_last
        # Also the last word of "z. B." and "p. ex."
        self._abbreviations = names | {name.split()[-1] for name in names}
        self._starters = frozenset(words_of(STARTERS, language))

    def places(self, text: str, *, is_complete: bool = True) -> Iterator[int]:
        """The positions after the signs that end a sentence, with their closing quotes. In a text that is
        not complete, an end that depends on a word that has not arrived is left out."""
        is_lower = not any(character.isupper() for character in text[:2_000])
        for sign in _END_SIGN.finditer(text):
            if not is_complete and sign.end() == len(text) and sign[0][0] not in _SIGNS_WITHOUT_SPACE:
                return  # "3.5" or "example.org" may follow
            if self._is_end(text, sign.start(), sign.end(), is_complete=is_complete, is_lower=is_lower):
                yield sign.end()

    def parts(self, text: str) -> list[str]:
        """The sentences of a text; joined, they equal it. Spaces begin the next sentence."""
        places = [0, *self.places(text)]
        ends = [*places[1:], len(text)]
        sentences = [text[start:end] for start, end in zip(places, ends, strict=True)]
        return [sentence for sentence in sentences if sentence]

    def ends_after(self, text: str, place: int) -> bool:
        """Whether the full stop of an abbreviation, which is before `place`, ends a sentence."""
        return self._is_end(text, place - 1, place, is_complete=True, is_lower=False)

    def _is_end(self, text: str, start: int, end: int, *, is_complete: bool, is_lower: bool) -> bool:
        """Whether the sign from `start` to `end` ends a sentence. is_lower: whether the text has no
        capitals."""
        sign = text[start]
        if sign in _SIGNS_WITHOUT_SPACE:
            return True
        match = _NEXT_WORD.match(text, end, end + 120)
        next_word = (match[1] if match else None) or ""
        # In a stream, the next word may not be complete.
        has_next_word = is_complete or (bool(next_word) and match is not None and match.end(1) < len(text))
        if not next_word and is_complete and not text[end:].strip():
            return True
        if next_word[:1].islower() and not is_lower:
            return False
        if sign != "." or text[start : start + 2] in ("..", ".!", ".?"):
            return True
        kind = self._kind_of_last_word(text[max(0, start - _MAX_WORD_CHARACTERS) : start])
        if kind == "plain":
            return True
        if not has_next_word or kind == "never_last":
            return False
        if kind == "before_number":
            return not next_word[:1].isdigit()
        is_starter = next_word.casefold() in self._starters and (is_lower or not next_word.islower())
        if kind == "often_last" and not self._nouns_have_capitals:
            return is_starter or (next_word[:1].isupper() and not _CONTINUATION.fullmatch(next_word))
        return is_starter

    def _kind_of_last_word(self, text: str) -> WordKind:
        match = _LAST_WORD.search(text)
        written = match[0].lstrip("{<*_") if match else ""
        word = written.casefold()
        spaced = _SPACED_ABBREVIATION.search(text)
        joined = re.sub(r"\s", "", spaced[0]).casefold() + "." if spaced else ""
        name = "str." if word.endswith("str") else f"{word}."
        for abbreviation in filter(None, (joined, name)):
            if abbreviation in self._never_last:
                return "never_last"
            if abbreviation in self._often_last or abbreviation in _HALVES_OF_A_DAY:
                return "often_last"
        if word.isdigit():
            # A year or a large number is rarely an ordinal.
            return "sometimes_last" if self._has_ordinal_dot and len(word) <= 2 else "plain"
        if name in self._abbreviations:
            return "sometimes_last"
        if name in self._before_number:
            return "before_number"
        if len(written) == 1 and written != "I":
            return "never_last" if written.isupper() else "sometimes_last"
        return "sometimes_last" if _DOTTED_ABBREVIATION.fullmatch(word) else "plain"


def words_of(tables: dict[str, str], language: str) -> list[str]:
    """The words of a language in lower case; those of all languages for the language ""."""
    rows = tables.values() if not language else (tables.get(language, ""), tables.get("*", ""))
    return [word for row in rows for word in row.casefold().split()]


_HALVES_OF_A_DAY = ("a.m.", "p.m.")
# Capitalised words that continue a sentence after "9 p.m.".
_CONTINUATION = re.compile(
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)day|mon|tue|wed|thu|fri|sat|sun|[ecmp][sd]?t|gmt|utc|"
    r"cet|cest|bst|ist|eastern|pacific|central|mountain|january|february|march|april|june|july|"
    r"august|september|october|november|december",
    re.I,
)
