"""Numerals other than 0 to 9: digits of every script, superscripts, fractions, ①, Ⅳ.

Unicode defines numeric characters (categories Nd, Nl and No) and their values, so that a new
character needs no entry here.
"""

import re
import unicodedata
from collections.abc import Iterator
from itertools import groupby
from typing import Literal

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


def runs(text: str) -> Iterator[tuple[Kind, str]]:
    """The text in parts of one kind; fractions and other numbers one by one."""
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
    """Numerator and denominator of a fraction: ⅔ is (2, 3), and ⅟ is (1, 1)."""
    top, _, bottom = unicodedata.normalize("NFKC", character).partition("\u2044")
    return int(top), int(bottom or 1)


def figures_of(run: str) -> str:
    """A run of superscripts or subscripts in digits, with its sign."""
    figures = unicodedata.normalize("NFKC", run).replace("\u2212", "-")
    return "".join(re.findall(r"-|[0-9]", figures))


def value_of(character: str) -> str:
    """The value of a character, in digits: ① is 1, ༳ is -0.5."""
    value = unicodedata.numeric(character)
    return str(int(value)) if value == int(value) else f"{value:g}"


def in_digits(text: str) -> str:
    """A text with all numeric characters as digits 0 to 9, for rules that know only these."""
    parts = list[str]()
    for kind, part in runs(plain_digits(text)):
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
