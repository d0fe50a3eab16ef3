"""Nouns with their plural forms, and numbers and times as they are written."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Noun:
    """A counted noun: its forms after 1, 2, 5 and a fraction. Forms that a language lacks repeat
    the plural. gender: m, f or n, with which the numeral agrees."""

    one: str
    few: str
    many: str
    part: str
    gender: str = "m"

    @staticmethod
    def of(forms: str, gender: str = "m") -> "Noun":
        """Makes a noun from `one`, `one/many`, `one/few/many` or `one/few/many/part`."""
        parts = forms.split("/")
        one, few = parts[0], parts[1] if len(parts) > 1 else parts[0]
        many = parts[2] if len(parts) > 2 else few
        return Noun(one, few, many, parts[3] if len(parts) > 3 else many, gender)


@dataclass(frozen=True)
class Money:
    """A currency: the names of its unit and of a hundredth of it."""

    unit: Noun
    cent: Noun | None = None


@dataclass(frozen=True)
class WrittenNumber:
    """A written number. whole: the digits of its whole part; fraction: those after the separator;
    parts: more than one if the text is not a number (`1.2.3`)."""

    whole: str
    fraction: str = ""
    parts: tuple[str, ...] = ()

    @property
    def value(self) -> int:
        """The value of the whole part."""
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
        """Whether only the hour is written."""
        return not self.minute and self.second is None


def nouns(table: str) -> dict[str, Noun]:
    """Nouns by symbol, from rows of `symbol symbol = one/many gender`, separated by lines or
    commas; the default gender is m."""
    return {symbol: _noun(forms) for symbol, forms in _rows(table)}


def moneys(table: str) -> dict[str, Money]:
    """Currencies by sign, from rows of `sign = one/many gender; one/many gender`: the unit, and a
    hundredth of it if that has a name."""
    currencies = {}
    for sign, forms in _rows(table):
        unit, _, cent = forms.partition("; ")
        currencies[sign] = Money(_noun(unit), _noun(cent) if cent else None)
    return currencies


def scale_words(million: str, milliard: str, billion: str = "") -> dict[int, Noun]:
    """The nouns of 10**6, 10**9 and 10**12 by their powers; none for one without forms."""
    forms = {6: million, 9: milliard, 12: billion}
    return {power: _noun(each) for power, each in forms.items() if each}


def marks(table: str) -> dict[str, int]:
    """Powers of ten by mark, from rows of `mark mark = power`, separated by commas."""
    return {mark: int(power) for mark, power in _rows(table)}


def shifted(amount: str, power: int, parse: Callable[[str], WrittenNumber]) -> str:
    """An amount (`1.5`, `5-7`) times ten to a power, in digits."""

    def times(match: re.Match[str]) -> str:
        number = parse(match[0])
        if number.parts:
            return match[0]
        kept, rest = number.fraction[:power], number.fraction[power:]
        whole = str(int(number.whole + kept.ljust(power, "0")))
        return f"{whole}.{rest}" if rest else whole

    return re.sub(r"[0-9](?:[0-9., ]*[0-9])?", times, amount)


def _rows(table: str) -> Iterator[tuple[str, str]]:
    for row in filter(None, map(str.strip, re.split(r"\n|, ", table.strip()))):
        symbols, _, forms = row.rstrip(",").partition(" = ")
        for symbol in symbols.split():
            yield symbol, forms


def _noun(forms: str) -> Noun:
    words, _, gender = forms.rpartition(" ")
    return Noun.of(words, gender) if gender in ("m", "f", "n") else Noun.of(forms)
