"""Numbers in words with the nouns that they count, and the tables in which a language lists its words.

ICU's numerals are rule sets of Unicode CLDR (package `unicode-rbnf`). num2words, which Coqui's
normaliser uses, lacks Hindi and Chinese and, for most other languages, genders and cases. The
module of each language corrects CLDR's errors.
"""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from unicode_rbnf import RbnfEngine

# Longer numbers are read digit by digit, as people do; the rules end before 10**18.
MAX_DIGITS = 15

# Between groups of three digits, a space that no line can break at. It joins them into one number.
GROUP = "\u202f"
ANY_GROUPS = r"[1-9][0-9]{0,2}(?: [0-9]{3})+"
# 48 000 and 1 234 567, but not 100 200 300.
_HUNDREDS = r"(?!(?:[1-9]|[1-9]00)(?: [1-9]00)+(?! ?[0-9]))"
CLEAR_GROUPS = rf"{_HUNDREDS}[1-9][0-9]{{0,2}}(?:(?: [0-9]{{3}}){{2,}}| 000)"
# From five digits on, as dictionaries advise; but not "Größe 12 100 %".
LONG_GROUPS = rf"(?:{CLEAR_GROUPS}|{_HUNDREDS}[1-9][0-9]{{1,2}} [0-9]{{3}}(?!\s?%))"
# Between two numbers that are not one.
APART = "\ue8fd"
Step = Callable[[str], str]
Pattern = re.Pattern[str]
# For what a language does not write: fails fast, at a letter that no text has, and has the groups
# that replacements name.
NEVER = re.compile("\ue8fe(?!)()()")


@dataclass(frozen=True)
class Noun:
    """A counted noun.

    Attributes:
        one, few, many, part: The forms after 1, 2, 5 and a fraction. A form that the language lacks
            repeats the plural.
        gender: m, f or n, with which the numeral agrees.
    """

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
        one, *others = forms.split("/")
        others = [one + form[1:] if form.startswith("-") else form for form in others]
        others += 3 * (others or [one])[-1:]
        one, few, many, part = (f"{form} {tail}".rstrip() for form in (one, *others[:3]))
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
    """A sign or an abbreviation as a key: without spaces, in lower case."""
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
    units = {symbol: _parse_noun(forms) for symbol, forms in _parse_rows(table)}
    return _areas_and_volumes(units) | units


def _areas_and_volumes(units: Mapping[str, Noun]) -> dict[str, Noun]:
    """The areas and volumes of other lengths, named after those of the metre: Quadratmeter gives
    Quadratzentimeter."""
    powers = dict[str, Noun]()
    for metre, power, prefix in itertools.product("mм", "²³", ("k", "d", "c", "m", "к", "д", "с", "м")):
        length, power_of_metre = units.get(prefix + metre), units.get(metre + power)
        if length is None or power_of_metre is None:
            continue
        one, few, many, part = (
            re.sub(re.escape(old), new if old in form else new.lower(), form, flags=re.IGNORECASE)
            for old, new, form in zip(units[metre].forms, length.forms, power_of_metre.forms, strict=True)
        )
        powers[prefix + metre + power] = Noun(one, few, many, part, power_of_metre.gender)
    return powers


def moneys(table: str) -> dict[str, Money]:
    """Currencies by sign, from rows of `sign = one/many gender; one/many gender`: the unit, and a
    hundredth of it if that has a name."""
    return {sign: Money(*map(_parse_noun, names.split("; "))) for sign, names in _parse_rows(table)}


def scale_words(table: str) -> dict[int, Noun]:
    """The nouns of 10**6, 10**9 and 10**12 by their powers, from a row of three."""
    return dict(zip((6, 9, 12), map(_parse_noun, re.split(r",\s+", table)), strict=True))


def marks(table: str) -> dict[str, int]:
    """Powers of ten by mark, from rows of `mark mark = power`."""
    return {mark: int(power) for mark, power in _parse_rows(table)}


def _parse_rows(table: str) -> Iterator[tuple[str, str]]:
    for symbols, forms in pairs(table).items():
        for symbol in symbols.split():
            yield symbol.replace("_", " "), forms


def _parse_noun(forms: str) -> Noun:
    words, _, gender = forms.rpartition(" ")
    return Noun.of(words, gender) if gender in ("m", "f", "n") else Noun.of(forms)


class NoWordsError(Exception):
    """The language lacks a rule set, as Arabic and Korean lack ordinals."""


# Bounded, because callers choose the numbers.
@lru_cache(4_096)
def spell(language: str, number: int, rules: str) -> str:
    """`number`, 0 or more, in words. rules: a rule set of CLDR, such as `cardinal-feminine`.

    Spells the digits one by one if the number is too long, or if the rules lack words for it.
    Raises NoWordsError if the language lacks the rule set.
    """
    if len(str(number)) <= MAX_DIGITS:
        from unicode_rbnf.engine import RbnfError

        try:
            formatted = engine(language).format_number(number, ruleset_names=[f"spellout-{rules}"])
        except RbnfError as error:
            raise NoWordsError(str(error)) from error
        spelled: str = formatted.text
        if not any(character.isdigit() for character in spelled):
            return " ".join(spelled.split())
    return " ".join(spell(language, int(digit), rules) for digit in str(number))


@cache
def engine(language: str) -> "RbnfEngine":
    """The engine that applies ICU's rule sets of a language."""
    from unicode_rbnf import RbnfEngine

    return RbnfEngine.for_language(language)


@dataclass(frozen=True)
class WrittenNumber:
    """A number as written.

    Attributes:
        whole: The digits of its whole part.
        fraction: The digits after the decimal separator.
        parts: The parts between separators if the text is not a number (`1.2.3`); otherwise empty.
    """

    whole: str
    fraction: str = ""
    parts: tuple[str, ...] = ()

    @property
    def value(self) -> int:
        """The value of the whole part."""
        return int(self.whole)


class Amount(NamedTuple):
    """A number or a range as written, such as `-5` and `5-7`.

    Attributes:
        sign: In words; "" without one.
        first: The number, or the first of the range.
        last: The last number of the range; "" without one.
    """

    sign: str
    first: str
    last: str


class NumberRules:
    """How a language says numbers and counted nouns."""

    code: str
    # CLDR's rule sets for numerals, by gender; "" is for a number without a noun, if it differs
    # from the masculine.
    cardinals: Mapping[str, str] = {}
    ordinals: Mapping[str, str] = {}
    # Errors in CLDR's cardinals, with corrections.
    corrections: Sequence[tuple[str, str]] = ()
    # The rule set of single digits.
    digit_rules = "numbering"
    # The digit zero, if that rule set has another.
    zero_digit = ""
    # The thousands separator besides the space.
    thousands_separator: str = "."
    # The pattern of a number in groups of three digits that plain spaces separate. Languages that write
    # 12 345 join all groups (`ANY_GROUPS`); others join only groups that cannot be two numbers.
    spaced_groups: str = ANY_GROUPS
    # Whether the script has spaces.
    has_spaces = True
    # What separates the words of a number, and the number from its noun.
    space = " "
    # Characters that no number may touch; in scripts without spaces, it may touch any other letter.
    joining_characters = r"\w"
    # The words for the decimal separator, the signs, and the dash of a range.
    point, minus, plus, to = "", "", "plus", ""
    # The words of a year from 1100 to 1999 if it is read in hundreds.
    hundreds_form = ""
    # Whether the digits after a decimal separator are spoken one by one.
    spells_decimals = False

    @property
    def number_start(self) -> str:
        """The pattern of a position at which a number may begin."""
        return rf"(?<![{self.joining_characters}.,:/-])"

    @property
    def word_end(self) -> str:
        """The pattern of a position at which a word may end."""
        return rf"(?![{self.joining_characters}])"

    def sentence_stop(self, match: re.Match[str]) -> str:
        """The full stop at the end of a match if it also ends a sentence: "at 9 p.m. Then"."""
        return ""

    def cardinal(self, number: int, gender: str = "") -> str:
        """An integer in words. gender: of the noun that it counts."""
        rules = self.cardinals.get(gender) or self.cardinals.get("m") or "numbering"
        return self._correct(spell(self.code, number, rules))

    def ordinal(self, number: int, gender: str = "m") -> str:
        """The first, the second, …"""
        rules = self.ordinals.get(gender) or self.ordinals.get("m") or "ordinal"
        return spell(self.code, number, rules)

    def year(self, number: int) -> str:
        """A year in words."""
        if not (self.hundreds_form and 1100 <= number <= 1999):
            return self.cardinal(number)
        hundreds, year_of_century = divmod(number, 100)
        words = self.cardinal(hundreds), self.cardinal(year_of_century) if year_of_century else ""
        return self.hundreds_form.format(*words).strip()

    def digits(self, text: str) -> str:
        """The digits of a text, one by one."""
        return self.space.join(self.digit(int(digit)) for digit in text if digit.isdecimal())

    def digit(self, number: int) -> str:
        """One digit of a telephone number."""
        if number == 0 and self.zero_digit:
            return self.zero_digit
        return self._correct(spell(self.code, number, self.digit_rules))

    def _correct(self, words: str) -> str:
        for wrong, right in self.corrections:
            words = words.replace(wrong, right)
        return words

    def number_words(self, text: str, gender: str = "") -> str:
        """A written number, with its separators, in words."""
        return self.parsed_number_words(self.parse_number(text), gender)

    def parsed_number_words(self, number: WrittenNumber, gender: str = "") -> str:
        """A parsed number in words."""
        if number.parts:
            return f" {self.point} ".join(self.integer_words(part) for part in number.parts)
        if not number.fraction:
            return self.integer_words(number.whole, gender)
        return self.decimal_words(number)

    def decimal_words(self, number: WrittenNumber) -> str:
        """A number with a fraction in words."""
        parts = (self.integer_words(number.whole), self.point, self.decimal_digits(number.fraction))
        return self.space.join(parts)

    def decimal_digits(self, digits: str) -> str:
        """The digits after the decimal separator; two digits are read as a number."""
        if self.spells_decimals or len(digits) > 2 or digits.startswith("0"):
            return self.digits(digits)
        return self.cardinal(int(digits))

    def integer_words(self, digits: str, gender: str = "") -> str:
        """Digits without separators: as a number, or one by one (007, account numbers)."""
        if len(digits) > MAX_DIGITS or (len(digits) > 1 and digits.startswith("0")):
            return self.digits(digits)
        return self.cardinal(int(digits), gender)

    def parse_number(self, text: str) -> WrittenNumber:
        """Parses a written number, which has only digits, spaces, points and commas."""
        text = text.replace(" ", "")
        marks = re.findall("[.,]", text)
        if not marks:
            return WrittenNumber(text)
        last_mark, has_one_kind = marks[-1], len(set(marks)) == 1
        whole, _, fraction = text.rpartition(last_mark)
        thousands = rf"[1-9]\d{{0,2}}(?:[{last_mark}]\d{{3}})+"
        if last_mark == "," and has_one_kind and re.fullmatch(r"\d{1,2}(?:,\d{2})+,\d{3}", text):
            return WrittenNumber(text.replace(",", ""))  # 1,23,456 in India
        if (
            has_one_kind
            and (last_mark == self.thousands_separator or len(marks) > 1)
            and re.fullmatch(thousands, text)
        ):
            return WrittenNumber(text.replace(last_mark, ""))
        if marks.count(last_mark) == 1:
            return WrittenNumber(re.sub("[.,]", "", whole), fraction)
        return WrittenNumber("0", parts=tuple(filter(None, re.split("[.,]", text))))

    def noun_form(self, number: WrittenNumber, noun: Noun) -> str:
        """The form of a noun after a number."""
        if number.fraction:
            return noun.part
        return noun.one if number.value == 1 else noun.few

    def counted_words(self, amount: str, noun: Noun) -> str:
        """An amount (`5`, `-5`, `5-7`) of a noun, in words."""
        _, first, last = self.parse_amount(amount)
        form = self.noun_form(self.parse_number(last or first), noun)
        return f"{self.amount_words(amount, noun.gender)}{self.space}{form}".rstrip()

    def amount_words(self, amount: str, gender: str = "") -> str:
        """An amount without its noun, in words."""
        sign, first, last = self.parse_amount(amount)
        words = [sign, self.number_words(first, gender)]
        if last:
            words += [self.to, self.number_words(last, gender)]
        return self.space.join(words).strip()

    def parse_amount(self, text: str) -> Amount:
        """Parses a number or a range with its sign."""
        sign = {"-": self.minus, "+": self.plus}.get(text[0], "")
        first, *others = re.split(r"\s?[–—-]\s?", text.lstrip("-+"))
        return Amount(sign, first, others[0] if others else "")

    def times_power_of_ten(self, amount: str, power: int) -> str:
        """An amount (`1.5`, `5-7`) times ten to a power, in digits."""

        def multiply(match: re.Match[str]) -> str:
            number = self.parse_number(match[0])
            if number.parts:
                return match[0]
            moved, fraction = number.fraction[:power], number.fraction[power:]
            whole = str(int(number.whole + moved.ljust(power, "0")))
            return f"{whole}.{fraction}" if fraction else whole

        return re.sub(r"[0-9](?:[0-9., ]*[0-9])?", multiply, amount)

    @cached_property
    def number_pattern(self) -> str:
        """The pattern of a written number, such as 1.234.567,89."""
        plain = r"[0-9]+(?:[.,][0-9]+)*"
        if not self.spaced_groups:
            return plain
        return rf"(?:{self.spaced_groups}(?! ?[0-9])(?:[.,][0-9]+)?|{plain})"

    @cached_property
    def amount_pattern(self) -> str:
        """The pattern of an amount: a number with its sign, or a range."""
        sign, start = rf"(?:(?<![{self.joining_characters}.,)%°-])[-+])?", r"(?<![0-9])(?<![0-9][.,])"
        return rf"{sign}{start}{self.number_pattern}(?:(?:-|\s?[–—]\s?){self.number_pattern})?"
