"""Nouns with their plural forms, and numbers and times as they are written."""

import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Noun:
    """What is counted. The forms are those behind 1, 2 and 5 and behind a fraction; a language
    without them repeats the plural. gender: m, f or n, with which the numeral agrees."""

    one: str
    few: str
    many: str
    part: str
    gender: str = "m"

    @staticmethod
    def of(forms: str, gender: str = "m") -> "Noun":
        """Of `one`, `one/many`, `one/few/many` or `one/few/many/part`."""
        parts = forms.split("/")
        one, few = parts[0], parts[1] if len(parts) > 1 else parts[0]
        many = parts[2] if len(parts) > 2 else few
        return Noun(one, few, many, parts[3] if len(parts) > 3 else many, gender)


@dataclass(frozen=True)
class Money:
    """A currency: its unit, and what a hundredth of it is called."""

    unit: Noun
    cent: Noun | None = None


@dataclass(frozen=True)
class WrittenNumber:
    """A number as it was written. whole: its digits; fraction: those behind the separator; parts:
    more than one where it is none (`1.2.3`)."""

    whole: str
    fraction: str = ""
    parts: tuple[str, ...] = ()

    @property
    def value(self) -> int:
        """Of the whole part."""
        return int(self.whole)


@dataclass(frozen=True)
class ClockTime:
    """A time of day. before, after: the text around it."""

    hour: int
    minute: int
    second: int | None = None
    before: str = ""
    after: str = ""

    @property
    def full_hour(self) -> bool:
        """Whether nothing but the hour is written."""
        return not self.minute and self.second is None


def nouns(table: str) -> dict[str, Noun]:
    """`symbol symbol = one/many gender`, each on a line of its own or behind a comma; without a
    gender it is m."""
    return {symbol: _noun(forms) for symbol, forms in _rows(table)}


def moneys(table: str) -> dict[str, Money]:
    """As `nouns`, `sign = one/many gender; one/many gender`: of the unit and of a hundredth of it,
    where that has a name."""
    currencies = {}
    for sign, forms in _rows(table):
        unit, _, cent = forms.partition("; ")
        currencies[sign] = Money(_noun(unit), _noun(cent) if cent else None)
    return currencies


def _rows(table: str) -> Iterator[tuple[str, str]]:
    for row in filter(None, map(str.strip, re.split(r"\n|, ", table.strip()))):
        symbols, _, forms = row.rstrip(",").partition(" = ")
        for symbol in symbols.split():
            yield symbol, forms


def _noun(forms: str) -> Noun:
    words, _, gender = forms.rpartition(" ")
    return Noun.of(words, gender) if gender in ("m", "f", "n") else Noun.of(forms)
