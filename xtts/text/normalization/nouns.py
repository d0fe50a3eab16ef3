"""Nouns with their plural forms, and the text tables in which a language lists its words."""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Noun:
    """A counted noun: its forms after 1, 2, 5 and a fraction, named as CLDR names plural categories.
    Forms that a language lacks repeat the plural. gender: m, f or n, with which the numeral agrees."""

    one: str
    few: str
    many: str
    part: str
    gender: str = "m"

    @property
    def forms(self) -> tuple[str, ...]:
        """All forms."""
        return self.one, self.few, self.many, self.part

    @staticmethod
    def of(forms: str, gender: str = "m") -> "Noun":
        """Makes a noun from `one`, `one/many`, `one/few/many` or `one/few/many/part`. `-s` is the
        first form with an ending; ` + per hour` follows each form."""
        forms, _, tail = forms.partition(" + ")
        one, *more = forms.split("/")
        more = [one + form[1:] if form.startswith("-") else form for form in more]
        more += 3 * (more or [one])[-1:]
        one, few, many, part = (f"{form} {tail}".rstrip() for form in (one, *more[:3]))
        return Noun(one, few, many, part, gender)


@dataclass(frozen=True)
class Money:
    """A currency: the names of its unit and of a hundredth of it."""

    unit: Noun
    cent: Noun | None = None


def alternatives(signs: Iterable[str]) -> str:
    """A pattern of alternatives, longest first; one that matches nothing if there are none."""
    return "|".join(map(re.escape, sorted(signs, key=len, reverse=True))) or "(?!)"


def folded_sign(sign: str) -> str:
    """A sign or an abbreviation without spaces, in lower case, by which it is found."""
    return re.sub(r"\s", "", sign).casefold()


def words(table: str) -> tuple[str, ...]:
    """The words of a table."""
    return tuple(table.split())


def pairs(table: str) -> dict[str, str]:
    """Spoken words by their written form, from rows of `written = spoken`, separated by lines or
    commas."""
    rows = (row.strip().rstrip(",").partition(" = ") for row in re.split(r"\n|, ", table))
    return {written: spoken for written, _, spoken in rows if written}


def nouns(table: str) -> dict[str, Noun]:
    """Nouns by symbol, from rows of `symbol symbol = one/many gender`; the default gender is m, and
    `_` a space in a symbol."""
    units = {symbol: _noun(forms) for symbol, forms in _rows(table)}
    return _powers(units) | units


def _powers(units: Mapping[str, Noun]) -> dict[str, Noun]:
    """Areas and volumes of the other lengths, named as that of the metre is: Quadratmeter,
    Quadratzentimeter."""
    powers = dict[str, Noun]()
    for metre, power, prefix in itertools.product("mм", "²³", ("k", "d", "c", "m", "к", "д", "с", "м")):
        length, whole = units.get(prefix + metre), units.get(metre + power)
        if length is None or whole is None:
            continue
        forms = [
            re.sub(re.escape(old), new if old in form else new.lower(), form, flags=re.IGNORECASE)
            for old, new, form in zip(units[metre].forms, length.forms, whole.forms, strict=True)
        ]
        one, few, many, part = forms
        powers[prefix + metre + power] = Noun(one, few, many, part, whole.gender)
    return powers


def moneys(table: str) -> dict[str, Money]:
    """Currencies by sign, from rows of `sign = one/many gender; one/many gender`: the unit, and a
    hundredth of it if that has a name."""
    return {sign: Money(*map(_noun, names.split("; "))) for sign, names in _rows(table)}


def scale_words(table: str) -> dict[int, Noun]:
    """The nouns of 10**6, 10**9 and 10**12 by their powers, from a row of three."""
    return dict(zip((6, 9, 12), map(_noun, re.split(r",\s+", table)), strict=True))


def marks(table: str) -> dict[str, int]:
    """Powers of ten by mark, from rows of `mark mark = power`."""
    return {mark: int(power) for mark, power in _rows(table)}


def _rows(table: str) -> Iterator[tuple[str, str]]:
    for symbols, forms in pairs(table).items():
        for symbol in symbols.split():
            yield symbol.replace("_", " "), forms


def _noun(forms: str) -> Noun:
    words, _, gender = forms.rpartition(" ")
    return Noun.of(words, gender) if gender in ("m", "f", "n") else Noun.of(forms)
