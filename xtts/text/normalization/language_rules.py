"""LanguageRules: the patterns and steps that all languages share.

A language is a subclass with its words, which overrides what it reads differently. The steps run
one after another over the text. A step replaces what it reads by words, so that no later step reads
it again; a step that cannot apply is not entered. Every pattern takes linear time, because texts
are untrusted.
"""

import re
from collections.abc import Mapping
from functools import cached_property
from typing import ClassVar

from xtts.text import formulas
from xtts.text.normalization import numerals
from xtts.text.normalization.amounts import AmountRules
from xtts.text.normalization.clock import ClockRules
from xtts.text.normalization.contacts import ADDRESS_MARK, ContactRules, address_reader
from xtts.text.normalization.numbers import ANY_GROUPS, APART, GROUP, NEVER, Pattern, Step, folded_sign, pairs
from xtts.text.normalization.scores import follows_label
from xtts.text.sentences import SentenceEnds


class LanguageRules(AmountRules, ClockRules, ContactRules, numerals.RomanRules):
    """The rules of one language. Immutable, thread-safe."""

    # The words of abbreviations; `#` at the end of one requires a number after it.
    abbreviations: ClassVar[Mapping[str, str]] = {}
    # A written ordinal: its number and its mark.
    ordinal_mark: ClassVar[Pattern] = NEVER
    # The marks of feminine ordinals.
    feminine_marks: ClassVar[tuple[str, ...]] = ()
    # A symbol or number (group 1), and its ending (group 2) after a joiner.
    suffix: ClassVar[Pattern] = NEVER
    # A year (group 2), alone or after a word that marks it (group 1), which is kept.
    year_marks: ClassVar[tuple[Pattern, ...]] = ()
    # The word between the numbers of a score (3-1), where two falling numbers are not a range.
    score_joiner = ""
    # The words for squared, cubed and other powers.
    powers = ("", "", "")
    # The word for # before a number.
    number_sign = ""

    def read(self, text: str) -> str:
        """The text in words."""
        text = self.suffix.sub(rf"\1{_SUFFIX_JOINER}\2", self._with_plain_figures(text))
        if _DIGIT.search(text):
            text = self.read_short_months(text)
        text = self.read_abbreviations(text)
        if not text.isascii() or "/" in text or " + " in text:
            text = self.read_fractions(text)
        if _DIGIT.search(text):
            for step in self.steps:
                text = step(text)
        elif not text.isascii() or formulas.SIGNS.search(text):
            text = self.read_signs(self.read_formula_signs(text))
        text = re.sub(rf"\s?{_SUFFIX_JOINER}\s?", "", " ".join(text.replace(APART, " ").split()))
        return _SPACE_BEFORE_STOP.sub("", text)

    def _with_plain_figures(self, text: str) -> str:
        """A text with its addresses, LaTeX and Roman numerals rewritten, and its numbers in the figures
        0 to 9."""
        if ADDRESS_MARK.search(text):
            text = self._read_addresses(text)
        if "$" in text or "\\" in text:
            text = formulas.read_formulas(text)
        if not text.isascii():
            text = numerals.plain_digits(text)
        if numerals.ANY_ROMAN.search(text):
            text = self.read_roman(text)
        if GROUP in text:
            text = text.replace(GROUP, " " if self.spaced_groups == ANY_GROUPS else self.thousands_separator)
        return self._with_separate_numbers(self._with_readable_signs(text)) if _DIGIT.search(text) else text

    def _with_readable_signs(self, text: str) -> str:
        """Rewrites the signs next to numbers for later steps: #1, n°5, m2, ~50, 100+."""
        text = _UNIT_POWER.sub(lambda m: m[1] + "²³"[m[2] == "3"], text)
        if self.number_sign and "#" in text:
            text = _NUMBER_SIGN.sub(f"{self.number_sign} ", text)
        if self.has_spaces:
            text = _JOINED_NUMBER_SIGN.sub(r"\1 ", text)
        if "°" in text:
            text = _ANGLE.sub(self._read_angle, text)
        if self.code != "en":  # anni '90
            text = _SHORT_DECADE.sub("", text)
        if self.has_spaces:
            text = _TILDE.sub("≈", _HOURS_AND_MINUTES.sub(r"\1 min", text))
            text = _PLUS_AFTER_NUMBER.sub(rf"\1 {self.plus}", text)
        return text

    @cached_property
    def _read_addresses(self) -> Step:
        return address_reader(self.code)

    def _read_angle(self, match: re.Match[str]) -> str:
        """An angle with the units of amounts: 40° 26 min 46 s north."""
        degrees, minutes, seconds, letter = match.groups()
        directions = dict(zip(_DIRECTION_LETTERS, _DIRECTIONS.get(self.code, "").split(), strict=False))
        if not {"min", "s"} <= self.units.keys() or (letter and not directions):
            return match[0]
        parts = f"{degrees}°", minutes and f"{minutes} min", seconds and f"{seconds} s"
        return " ".join(filter(None, (*parts, directions.get(letter))))

    def _with_separate_numbers(self, text: str) -> str:
        """Separates the items of a list and adjacent numbers; completes decimals, dates and prices:
        1,2,3; .5; 5,- €."""
        text = _LIST_OF_NUMBERS.sub(lambda m: m[0].replace(",", ", "), text)
        if self.has_spaces:
            text = _NUMBER_BEFORE_NUMBER.sub(_separate_from_next, text)
        text = _BARE_DECIMAL.sub("0", text)  # .5 is 0.5
        return _DATE_AND_TIME.sub(r" \1", _NO_CENTS.sub("", text))

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The steps for numbers, in order: the most specific patterns first."""
        return (
            self.read_dates,
            self.read_services,
            self.read_phones,
            self.read_identifiers,
            self.read_pairs,
            self.read_formula_signs,
            self.mark_times,
            self.read_spans,
            self.read_times,
            self.read_rate_of_amounts,
            self.read_money,
            self.read_percents,
            self.read_years,
            self.read_units,
            self.read_ordinals,
            self.read_ranges,
            self.read_ratios,
            self.read_signs,
            self.read_numbers,
        )

    @cached_property
    def sentences(self) -> SentenceEnds:
        """Where the sentences of the language end."""
        return SentenceEnds(self.code, self.abbreviations)

    def sentence_stop(self, match: re.Match[str]) -> str:
        """The full stop at the end of a match if it ends a sentence, too: "at 9 p.m. Then"."""
        ends = (
            match[0].endswith(".")
            and match.string[match.end() : match.end() + 1] not in tuple(",;:")
            and self.sentences.ends_after(match.string, match.end())
        )
        return "." if ends else ""

    # --- Steps

    @cached_property
    def read_formula_signs(self) -> Step:
        """Reads the signs of formulas: 5 × 3 = 15, x ≥ 5, 10^6."""
        # Apart from the number before it, because the Dutch minus is the sign of a minute, too.
        return formulas.signs_reader(self.code, self.powers[2], self.plus, f"{APART}{self.minus}")

    @cached_property
    def read_abbreviations(self) -> Step:
        """Reads abbreviations such as `e.g.`, also at the end of a sentence."""
        names = sorted(self.abbreviations, key=len, reverse=True)
        alternatives = "|".join(map(self._abbreviation_pattern, names)) or "(?!)"
        pattern = re.compile(rf"(?<![\w.])(?:{alternatives})")
        expansions = {folded_sign(name.rstrip("#")): words for name, words in self.abbreviations.items()}

        def expand(match: re.Match[str]) -> str:
            return expansions[folded_sign(match[0])] + self.sentence_stop(match)

        return lambda text: pattern.sub(expand, text)

    def _abbreviation_pattern(self, name: str) -> str:
        """The pattern of an abbreviation, whose first letter may be a capital; `#` at its end
        requires a number after it."""
        abbreviation = name.rstrip("#")
        initial = abbreviation[0]
        initial_pattern = re.escape(initial)
        if initial.isalpha() and initial.islower():
            initial_pattern = f"[{initial}{initial.upper()}]"
        other_letters = re.escape(abbreviation[1:]).replace(r"\ ", r"\s?")
        # After a number it is the unit: 5 min. are five minutes.
        units = map(_key_of_unit, (*self.units, *self.scale_marks))
        start = r"(?<![0-9])(?<![0-9]\s)" if _key_of_unit(abbreviation) in units else ""
        end = r"(?=\s?[0-9])" if name.endswith("#") else self.word_end
        return start + initial_pattern + other_letters + end

    def read_ordinals(self, text: str) -> str:
        """Reads ordinals such as 2nd."""
        return self.ordinal_mark.sub(self._read_ordinal, text)

    def _read_ordinal(self, match: re.Match[str]) -> str:
        gender = "f" if match[match.lastindex or 0] in self.feminine_marks else "m"
        return self.ordinal(int(match[1].replace(",", "")), gender)

    def read_years(self, text: str) -> str:
        """Reads years, if they are not read as numbers."""
        for mark in self.year_marks:
            text = mark.sub(lambda m: m[1] + self.year(int(m[2])), text)
        return text

    @cached_property
    def read_ranges(self) -> Step:
        """Reads ranges: 5-7, 1914–1918."""
        dash = r"(?:-|\s?[–—]\s?)" if self.has_spaces else r"(?:[-~]|\s?[–—]\s?)"
        pattern = re.compile(
            rf"(?<![{self.joining_characters}.,-])({self.number_pattern}){dash}({self.number_pattern})(?![{self.joining_characters}-])"
        )
        return lambda text: pattern.sub(self._read_range, text)

    def _read_range(self, match: re.Match[str]) -> str:
        first, last = match.groups()
        if first == last:  # 50-50
            return f"{self.number_words(first)} {self.number_words(last)}"
        if self.score_joiner and len(first) <= 2 and len(last) <= 2 and int(first) > int(last):
            return f"{self.number_words(first)} {self.score_joiner} {self.number_words(last)}"
        begins_with_year = _YEAR.fullmatch(first)
        if begins_with_year and _YEAR.fullmatch(last):
            return f"{self.year(int(first))} {self.to} {self.year(int(last))}"
        # 1998-99
        has_short_end = begins_with_year and len(last) == 2 and int(last) > int(first[2:])
        start = self.year(int(first)) if has_short_end else self.number_words(first)
        return f"{start} {self.to} {self.range_end_words(last)}"

    def range_end_words(self, written: str) -> str:
        """The last number of a range, in the case that the word before it requires."""
        return self.number_words(written)

    def read_signs(self, text: str) -> str:
        """Reads numeric characters: powers, subscripts, ①, Ⅳ."""
        if text.isascii():
            return text
        parts = list[str]()
        for kind, part in numerals.split_by_kind(text):
            if kind == "raised":
                parts.append(self._read_superscript(numerals.figures_of(part), "".join(parts)[-3:]))
            elif kind == "lowered":
                parts.append(f" {self.amount_words(numerals.figures_of(part) or '0')} ")
            elif kind == "fraction":
                parts.append(f" {self.part_words(*numerals.fraction_of(part))} ")
            elif kind == "number" or (kind == "ideograph" and self.has_spaces):
                parts.append(f" {self.amount_words(numerals.value_of(part))} ")
            else:
                if parts and part[0] in ",.;:!?)":
                    parts[-1] = parts[-1].rstrip()
                parts.append(part)
        return "".join(parts)

    def _read_superscript(self, figures: str, before: str) -> str:
        """A superscript: a power after a number, a bracket or a variable, else a number."""
        if not figures.strip("-"):
            return ""
        square, cube, other = self.powers
        if not (other and _BASE.search(before)):
            return f" {self.amount_words(figures)} "
        named = {"2": square, "3": cube}.get(figures)
        return f" {named or other.format(self.amount_words(figures))} "

    @cached_property
    def read_numbers(self) -> Step:
        """Reads all remaining numbers."""
        pattern = re.compile(self.amount_pattern)

        def step(text: str) -> str:
            if not self.has_spaces:  # a space would not keep two numbers apart
                text = _BETWEEN_NUMBERS.sub(", ", text)
            return pattern.sub(self._read_number, _PADDED.sub(r"\1", text))

        return step

    def _read_number(self, match: re.Match[str]) -> str:
        before, after = match.string[: match.start()], match.string[match.end() :]
        spoken = self.amount_words(match[0], self.gender_of_noun(match[0], after))
        # Another language's "5th", or "mp3": a space separates the word from the number.
        left, right = (
            " " * (self.has_spaces and neighbour.isalnum()) for neighbour in (before[-1:], after[:1])
        )
        return left + spoken + right

    def gender_of_noun(self, amount: str, after: str) -> str:
        """The gender of the noun after a number, if the numeral agrees with the noun and the noun's ending
        shows it; otherwise "". after: the text after the number."""
        return ""

    # --- For `say-as`

    def letters(self, text: str) -> str:
        """The characters of a text, one by one."""
        spoken = (
            self.digit(int(character)) if character in "0123456789" else self.letter(character)
            for character in text
        )
        return ", ".join(filter(None, spoken))

    def letter(self, character: str) -> str:
        """The name of a letter; the letter itself if it needs none."""
        return character if character.isalnum() else ""


_NUMBER_SIGN = re.compile(r"(?<![\w#&])#(?=[0-9])")
# n°5, №5, Nr.5
_JOINED_NUMBER_SIGN = re.compile(r"(?<!\w)(n\.?\s?[°º]|№|nr\.)(?=[0-9])", re.I)
# Degrees, minutes and seconds of arc, and a direction.
_ANGLE = re.compile(
    r"([0-9]{1,3}(?:[.,][0-9]{1,6})?)\s?°(?:(?=\s?[NSEWO](?!\w))|\s?([0-9]{1,2})\s?['′’]"
    r"(?:\s?([0-9]{1,2}(?:[.,][0-9]{1,3})?)\s?(?:[\"″”]|''|’’))?)(?:\s?([NSEWO])(?!\w))?"
)
# O is east in German and west in the Romance languages.
_DIRECTION_LETTERS = "NSEWO"
_DIRECTIONS = pairs("""en = north south east west west, de = Nord Süd Ost West Ost,
    fr = nord sud est ouest ouest, es = norte sur este oeste oeste, pt = norte sul leste oeste oeste,
    it = nord sud est ovest ovest""")
_SHORT_DECADE = re.compile(r"(?<=\s)['’](?=[2-9]0{1,2}(?![\w'’]))")
# 100+ people, ~50, 2h 30m.
_PLUS_AFTER_NUMBER = re.compile(r"(?<=[0-9])([kKmM%]?)\+(?=\s[^\W\d]|[,.;!?)](?!\w)|$)")
_TILDE = re.compile(r"(?<![\w~])~\s?(?=[0-9])")
_HOURS_AND_MINUTES = re.compile(r"(?<!\w)([0-9]{1,2}\s?h\s[0-9]{1,2})\s?m(?![\w²³])")
_SPACE_BEFORE_STOP = re.compile(r" (?=[.,](?:\s|$))")
# Separates a number from its ending until both are read. Texts cannot contain it.
_SUFFIX_JOINER = "\ue8ff"
_BARE_DECIMAL = re.compile(r"(?<![^\s(\[$€£¥₹₽<>=~'\"“„-])(?=\.[0-9]+(?![\w.,/:-]?[0-9]))")
# Single and double figures with commas are a list: 1,2,3.
_LIST_OF_NUMBERS = re.compile(r"(?<![\w.,])[0-9]{1,2}(?:,[0-9]{1,2}){2,20}(?!\d|[.,]\d)", re.ASCII)
_DIGIT = re.compile("[0-9]")
_YEAR = re.compile("1[1-9][0-9]{2}|20[0-9]{2}")
# A square or a cubic unit without its superscript: 30 m2, 2 kg/m3.
_UNIT_POWER = re.compile(r"((?:(?<=[0-9])\s?|(?<=[A-Za-zа-я]/))[kdcmкдс]?[mм])([23])(?!\w)")
_BETWEEN_NUMBERS = re.compile("(?<=[0-9]) (?=[0-9])")
# Two numbers, of which the first may number a page: "page 5 100 people".
_NUMBER_BEFORE_NUMBER = re.compile(r"(?<![\w.,])([0-9]{1,3}) (?=[0-9])")
# Zero-padded numbers, as in "Chapter 01".
_PADDED = re.compile(
    r"(?i:(\b(?:chapter|part|track|episode|lesson|volume|season|step|section|scene|act|kapitel|teil|"
    r"folge|chapitre|partie|épisode|capítulo|parte|episodio|episódio|capitolo|hoofdstuk|deel|"
    r"aflevering|rozdział|część|odcinek|kapitola|část|díl|fejezet|rész|bölüm|глава|часть|серия)\s))"
    r"0+(?=[1-9][0-9]{0,2}(?![\d-])(?![.,]\d))"
)
# The base of a power: a number, a bracket, a variable of one or two letters.
_BASE = re.compile(r"[0-9)\]]$|(?:^|[\W\d])(?:[^\W\d_]|[a-zα-ω]{2})$")
# ISO 8601's date with a time, and a price without cents: 5,- €.
_DATE_AND_TIME = re.compile(r"(?<=\d-\d\d)T(\d\d:\d\d)(?::\d\d(?:\.\d+)?)?Z?(?!\w)")
_NO_CENTS = re.compile(r"(?<=[0-9])[,.](?:[-–—]{1,2}|=)(?!\w|\s?[0-9])")


def _separate_from_next(match: re.Match[str]) -> str:
    """Separates the number of a chapter, a page or a size from the next number: it has no groups."""
    return f"{match[1]}{APART}" if follows_label(match) else match[0]


def _key_of_unit(name: str) -> str:
    return name.rstrip(".").casefold()
