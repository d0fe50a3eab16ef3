"""Numerals other than 0 to 9: digits of every script, superscripts, fractions, ①, Ⅳ, and Roman ones.

Unicode defines numeric characters (categories Nd, Nl and No) and their values, so that a new
character needs no entry here.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import groupby
from typing import ClassVar, Literal

from xtts.text.normalization.numbers import NEVER, NumberRules, Pattern

Kind = Literal["", "raised", "lowered", "fraction", "ideograph", "number"]
_KINDS: dict[str, Kind] = {"<super>": "raised", "<sub>": "lowered", "<fraction>": "fraction"}
_RAISED_SIGNS, _LOWERED_SIGNS = "\u207a\u207b", "\u208a\u208b"
# Ideographs for numbers, which Chinese and Japanese read unchanged.
_IDEOGRAPHS = "\u3007\u3021\u3022\u3023\u3024\u3025\u3026\u3027\u3028\u3029\u3038\u3039\u303a"
# The Arabic decimal separator and the separator of thousands.
_ARABIC_POINT, _ARABIC_GROUP = (re.compile(r"(?<=\d)\u066b(?=\d)"), re.compile(r"(?<=\d)\u066c(?=\d)"))
_ASCII = {
    "\u2212": "-",
    "\uff0d": "-",
    "\uff05": "%",
    "\u2044": "/",
    "\u2215": "/",
    "\u066a": "%",
    "\uff1c": "<",
    "\uff1e": ">",
}


def plain_digits(text: str) -> str:
    """Converts the digits of every script to 0 to 9, and variants of number signs to ASCII."""
    if text.isascii():
        return text
    text = _ARABIC_GROUP.sub("", _ARABIC_POINT.sub(".", text))
    return "".join(
        str(unicodedata.decimal(character))
        if character > "\x7f" and character.isdecimal()
        else _ASCII.get(character, character)
        for character in text
    )


def split_by_kind(text: str) -> Iterator[tuple[Kind, str]]:
    """The text in parts of one kind; each fraction, ideograph and other number is a separate part."""
    for kind, characters in groupby(text, _kind):
        part = "".join(characters)
        if kind in ("fraction", "ideograph", "number"):
            yield from ((kind, character) for character in part)
        else:
            yield kind, part


def _kind(character: str) -> Kind:
    if character <= "\x7f":
        return ""
    if character in _RAISED_SIGNS:
        return "raised"
    if character in _LOWERED_SIGNS:
        return "lowered"
    if unicodedata.category(character) not in ("No", "Nl"):
        return ""
    if character in _IDEOGRAPHS:
        return "ideograph"
    kind, _, parts = unicodedata.decomposition(character).partition(" ")
    # An ideograph may be raised, too.
    return _KINDS.get(kind, "number") if parts.startswith("00") else "number"


def fraction_of(character: str) -> tuple[int, int]:
    """The numerator and denominator of a fraction: ⅔ is (2, 3), and ⅟ is (1, 1)."""
    top, _, bottom = unicodedata.normalize("NFKC", character).partition("\u2044")
    return int(top), int(bottom or 1)


def figures_of(part: str) -> str:
    """Superscripts or subscripts in digits, with their sign."""
    figures = unicodedata.normalize("NFKC", part).replace("\u2212", "-")
    return "".join(re.findall(r"-|[0-9]", figures))


def value_of(character: str) -> str:
    """The value of a character, in digits: ① is 1, ༳ is -0.5."""
    value = unicodedata.numeric(character)
    return str(int(value)) if value == int(value) else f"{value:g}"


def in_digits(text: str) -> str:
    """A text with all numeric characters as digits 0 to 9, for rules that know only these."""
    parts = list[str]()
    for kind, part in split_by_kind(plain_digits(text)):
        if kind == "fraction":
            top, bottom = fraction_of(part)
            parts.append(f" {top}/{bottom} ")
        elif kind in ("ideograph", "number"):
            parts.append(f" {value_of(part)} ")
        elif kind:
            parts.append(f" {figures_of(part)} ")
        else:
            parts.append(part)
    return "".join(parts)


# The letters of Roman numerals; the last is Cyrillic.
ANY_ROMAN = re.compile("[IVXХ]")
# The pattern of a Roman numeral below 40.
ROMAN = r"(?=[IVX])X{0,3}(?:IX|IV|V?I{0,3})"
_WHOLE_ROMAN = rf"{ROMAN}(?![\w'’])"
_ROMAN_VALUES = {"I": 1, "V": 5, "X": 10}
# A numeral after the word for a part of a book, a world war or a century, in any language.
_LABELLED_NUMERAL = re.compile(
    r"((?<!\w)(?:chapter|part|volume|vol\.|ch\.|cap\.|chap\.|kap\.|bd\.|"
    r"book|act|scene|section|article|appendix|phase|class|episode|stage|world war|"
    r"kapitel|teil|band|buch|akt|szene|abschnitt|chapitre|partie|tome|livre|acte|scène|titre|"
    r"capítulo|parte|tomo|libro|acto|escena|título|siglos?|séc\.|sec\.|s\.|inc\.|capitolo|atto|scena|volumen|livro|ato|"
    r"cena|séculos?|hoofdstuk|deel|boek|rozdział|część|tom|księga|akt|kapitola|část|díl|bölüm|kısım|cilt|"
    r"глава|часть|том|раздел|книга)\s)"
    # "Part I played" does not number a part.
    rf"(?-i:(?!I\s[\w])({_WHOLE_ROMAN}))",
    re.I,
)
# Rocky II, but not "Give IV fluids".
_NAME = r"(?<!\w)((?!The\s|And\s)[^\W\d_a-zà-ÿ][\w’'-]{2,}\s)"
_NO_ABBREVIATION = r"(?!(?:IV|VI|XX|XXX)(?!\w))"
_NUMERAL_AFTER_NAME = re.compile(rf"{_NAME}{_NO_ABBREVIATION}(?=[IVX]{{2}})({_WHOLE_ROMAN})")


class RomanRules(NumberRules):
    """How a language reads Roman numerals in letters: Chapter IV, the XXI century, Louis XIV, World
    War II, Apollo XIII.

    I, V and X are letters, too. A numeral is therefore read only next to a noun that takes a number: a
    part of a book, a century, a war, a ruler. A numeral of two letters or more is also read after any
    other capitalised word, as a cardinal.
    """

    # An ordinal before its noun, with the numeral as group 1.
    roman_ordinal: ClassVar[Pattern] = NEVER
    # That ordinal in figures, which a later step reads.
    roman_form = "{}. "
    # The names of rulers and popes: men's, and after the bar women's. Slavic names are stems.
    rulers = ""
    # The case endings of men's and of women's names, with the gender and case of the ordinal.
    ruler_endings: ClassVar[tuple[Mapping[str, str], Mapping[str, str]]] = ({}, {})
    # The patterns before and after the numeral of a ruler.
    around_ruler = ("", "")
    # The last ruler of a name with an ordinal; later ones have cardinals.
    last_ordinal_ruler = 39

    def read_roman(self, text: str) -> str:
        """A text whose Roman numerals are figures or words."""
        text = self.roman_ordinal.sub(lambda m: self.roman_form.format(roman_value(m[1])), text)
        text = _LABELLED_NUMERAL.sub(lambda m: f"{m[1]}{roman_value(m[2])}", text)
        text = self._ruler_pattern.sub(self._read_ruler, text)
        return (
            _NUMERAL_AFTER_NAME.sub(lambda m: f"{m[1]}{roman_value(m[2])}", text) if self.has_spaces else text
        )

    @cached_property
    def _ruler_pattern(self) -> Pattern:
        """A name (group 1 a man's, 2 a woman's), its ending (3) and its numeral (4)."""
        if not self.rulers:
            return NEVER
        men, women = ("|".join(names.split()) for names in self.rulers.split("|"))
        men_endings, women_endings = self.ruler_endings
        endings = sorted({*men_endings, *women_endings}, key=len, reverse=True)
        ending = f"({'|'.join(endings)})?" if endings else "()"
        before, after = self.around_ruler
        return re.compile(
            rf"(?<!\w)(?:({men})|({women})){ending}\s{before}({ROMAN})(?!\w|['’](?!s\b)){after}"
        )

    def _read_ruler(self, match: re.Match[str]) -> str:
        name, gender = match[0][: match.start(4) - match.start() - 1], "f" if match[2] else "m"
        number = self.ruler_number_words(match, roman_value(match[4]), gender, match[3] or "")
        return f"{name} {number}{self.sentence_stop(match)}"

    def ruler_number_words(self, match: re.Match[str], number: int, gender: str, ending: str) -> str:
        """The number after a ruler's name in words. ending: that of the name, which tells its case."""
        if number > self.last_ordinal_ruler:
            return self.cardinal(number)
        return self.ordinal(number, self.ruler_endings[gender == "f"].get(ending, gender))


def roman_value(numeral: str) -> int:
    """The value of a Roman numeral below 40."""
    values = [_ROMAN_VALUES[digit] for digit in numeral]
    return sum(
        -value if value < following else value
        for value, following in zip(values, [*values[1:], 0], strict=True)
    )
