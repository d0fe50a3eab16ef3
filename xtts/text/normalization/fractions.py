"""Fractions in words: 2/5, ½, 2 1/2 kg."""

import re
from collections.abc import Mapping
from functools import cached_property
from typing import ClassVar

from xtts.text.normalization import numerals
from xtts.text.normalization.dates import DateRules
from xtts.text.normalization.numbers import Noun, Step, WrittenNumber, alternatives
from xtts.text.normalization.scores import OUT_OF, ScoreRules, follows_label
from xtts.text.normalization.units import UnitRules


class FractionRules(UnitRules, DateRules, ScoreRules):
    """How a language says fractions. `top` and `bottom` are a fraction's numerator and denominator."""

    percent: ClassVar[Noun]
    # Fractions that have a separate word.
    fractions: ClassVar[Mapping[str, str]] = {}
    # The denominators with names; these names, and their gender.
    DENOMINATORS = (3, 5, 6, 7, 8, 9, 10)
    denominators, denominator_gender = "", "m"
    # A number with a fraction; with a half, if that differs; the gender of the number.
    mixed, mixed_half, mixed_gender = "{} {}", "", ""
    # A half of a unit by the unit's gender, if the half agrees with it.
    halves: ClassVar[Mapping[str, str]] = {}
    # The word between another fraction and its unit.
    part_joiner = " "

    @property
    def percents(self) -> Mapping[str, Noun]:
        """The percent sign and its noun."""
        return {"%": self.percent}

    @cached_property
    def read_fractions(self) -> Step:
        """Reads fractions, alone and after a number, with the unit after them: ⅔, 2 1/2 kg."""
        hour = {"h": self.times_after_slash["h"]} if "h" in self.times_after_slash else {}
        nouns = {**hour, **self.units, **self.percents}
        unit = rf"(?:[\s-]?({alternatives(nouns)}){self.unit_end})?"
        mixed = re.compile(
            rf"{self.number_start}(?<![$€£])(?!0[0-9])([0-9]{{1,6}})(?:\s?({_FRACTION_CHARACTER})"
            rf"|[ -]([1-9]/(?:[2-9]|10|16))){self.word_end}(?!/|[.,-]\d){unit}"
        )
        alone = re.compile(
            rf"({_FRACTION_CHARACTER}){unit}"
            rf"|{self.number_start}({_SLASH_FRACTION}){self.word_end}(?!/|[.,]\d){unit}"
        )

        def read_mixed(match: re.Match[str]) -> str:
            top, bottom = _parse_fraction(match[2] or match[3])
            noun = nouns.get(match[4] or "")
            if top >= bottom or follows_label(match):
                return match[0]
            if noun and "-" in match.string[match.start(4) - 1 : match.start(4)]:
                noun = Noun.of(noun.one, noun.gender)
            if noun:
                words = self.mixed_amount_words(int(match[1]), noun, top, bottom)
                return f" {words}{self.sentence_stop(match)}"
            whole = self.integer_words(match[1], self.mixed_gender)
            return f" {self.mixed_words(int(match[1]), whole, top, bottom)} "

        def read_alone(match: re.Match[str]) -> str:
            top, bottom = _parse_fraction(match[1] or match[3])
            noun = nouns.get(match[2] or match[4] or "")
            if match[3] and not self.is_fraction(match, top, bottom, has_unit=noun is not None):
                return match[0]
            if noun is None:
                words = self.bare_part_words(match, top, bottom)
                return f" {words} " if match[1] else words
            return f" {self.unit_part_words(noun, top, bottom)}{self.sentence_stop(match)}"

        def step(text: str) -> str:
            if not text.isascii() or "/" in text:
                text = alone.sub(read_alone, mixed.sub(read_mixed, text))
            return re.sub(r"(?<=\w) \+ (?=\w)", f" {self.plus} ", text)

        return step

    def is_fraction(self, match: re.Match[str], top: int, bottom: int, *, has_unit: bool) -> bool:
        """Whether two numbers with a slash are a fraction, not a score, a part of a series or a date.
        has_unit: whether a unit follows."""
        if top >= bottom or follows_label(match):
            return False
        if has_unit or _OF_AFTER.match(match.string, match.end()):
            return True
        before = match.string[max(0, match.start() - 20) : match.start()]
        if re.search(rf"(?<!\w)(?:{self.date_words})\s$", before, re.IGNORECASE):
            return False
        if bottom == 10:
            return self.code not in OUT_OF
        return bottom < 10

    def mixed_amount_words(self, number: int, noun: Noun, top: int, bottom: int) -> str:
        """A number with a fraction and its unit."""
        whole = self.integer_words(str(number), noun.gender)
        form = self.noun_form(WrittenNumber(str(number), "5"), noun)
        return f"{self.mixed_words(number, whole, top, bottom)}{self.space}{form}"

    def unit_part_words(self, noun: Noun, top: int, bottom: int) -> str:
        """A fraction of a unit."""
        form = noun.part if noun.part != noun.many else noun.one
        if (top, bottom) == (1, 2) and noun.gender in self.halves:
            return f"{self.halves[noun.gender]} {form}"
        joiner = self.part_joiner if self.has_spaces else ""
        if self.code in ("fr", "it") and form[0] in "aeiouhéè":
            joiner = " d'"
        return f"{self.part_words(top, bottom)}{joiner}{form}"

    def bare_part_words(self, match: re.Match[str], top: int, bottom: int) -> str:
        """A fraction without a unit, which agrees with the noun after it: media taza. After an article,
        it loses its own "one"."""
        after = match.string[match.end() : match.end() + 40]
        half = self.halves.get(self.half_gender(after)) if (top, bottom) == (1, 2) else None
        words = half or self.part_words(top, bottom)
        before = match.string[max(0, match.start() - 8) : match.start()]
        if _ARTICLE_BEFORE.search(before) and self.code != "en":
            words = re.sub(r"^(?:eine?|une?|una|um|uma|een) ", "", words)
        return words

    def half_gender(self, after: str) -> str:
        """The gender of the noun after a half; "" if it is not known."""
        for gender, nouns in _HALVED_NOUNS.get(self.code, {}).items():
            if re.match(rf"\s(?:{nouns})\b", after):
                return gender
        return ""

    def part_words(self, top: int, bottom: int) -> str:
        """A fraction in words."""
        if words := self.fractions.get(_FRACTION_CHARACTERS.get((top, bottom), "")):
            return words
        names = dict(zip(self.DENOMINATORS, self.denominators.split(), strict=False))
        if bottom not in names:
            return f"{self.cardinal(top)} {self.slash} {self.cardinal(bottom)}"
        noun = Noun.of(names[bottom], self.denominator_gender)
        number = WrittenNumber(str(top))
        return f"{self.parsed_number_words(number, noun.gender)} {self.noun_form(number, noun)}"

    def mixed_words(self, number: int, whole: str, top: int, bottom: int) -> str:
        """A number with a fraction. whole: the number in words."""
        if (top, bottom) == (1, 2) and self.mixed_half:
            return self.mixed_half.format(whole)
        return self.mixed.format(whole, self.part_words(top, bottom))


# Nouns that are halved often, by gender, in languages whose endings do not show the gender.
_HALVED_NOUNS = {
    "de": {
        "f": "Tasse|Stunde|Packung|Flasche|Dose|Zwiebel|Zitrone|Seite|Portion|Minute|Gurke|Scheibe",
        "n": "Glas|Jahr|Stück|Brot|Huhn|Ei|Bund|Päckchen",
        "m": "Becher|Tag|Apfel|Monat|Löffel|Teelöffel|Esslöffel|Würfel|Kopf",
    },
    "fr": {"f": "tasse|heure|journée|bouteille|douzaine|page|cuillère|cuillerée|pomme|année"},
}
_ARTICLE_BEFORE = re.compile(r"(?<!\w)(?:eine[rnms]?|ein|une?|una|um|uma|een)\s$", re.I)
_FRACTION_CHARACTER = "[¼½¾⅐-⅟↉]"
_FRACTION_CHARACTERS = {(1, 2): "½", (1, 4): "¼", (3, 4): "¾"}
# Two numbers that may be a fraction.
_SLASH_FRACTION = r"[1-9]/(?:[2-9]|10)|(?:1[0-5]|[1-9])/16|[1-9][0-9]?/(?:12|32|64|100|1000)"
_OF_AFTER = re.compile(r"\s(?:of|der|des|de|du|di|del|della|dei|degli|van|do|da|dos|das|inch(?:es)?|z)\b")


def _parse_fraction(written: str) -> tuple[int, int]:
    top, slash, bottom = written.partition("/")
    return (int(top), int(bottom)) if slash else numerals.fraction_of(written)
