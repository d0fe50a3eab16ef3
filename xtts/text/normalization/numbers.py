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
from typing import TYPE_CHECKING

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


class NoWordsError(Exception):
    """The language lacks these rules, as Arabic and Korean lack ordinals."""


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
    from unicode_rbnf import RbnfEngine

    return RbnfEngine.for_language(language)


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


class NumberRules:
    """How a language says numbers and counted nouns."""

    code: str
    # CLDR's rule sets for numerals, by gender; "" is for a number without a noun, if it differs
    # from the masculine.
    cardinals: Mapping[str, str] = {}
    ordinals: Mapping[str, str] = {}
    # Errors in CLDR's cardinals, with corrections.
    corrections: Sequence[tuple[str, str]] = ()
    # The rule set of single digits, and their zero if it differs from that set's.
    digit_rules, zero_digit = "numbering", ""
    # The thousands separator besides the space, and the pattern of a number in groups of three that
    # plain spaces separate. Languages that write 12 345 join all groups (`ANY_GROUPS`); others only
    # what can be no two numbers.
    group: str = "."
    spaced_groups: str = ANY_GROUPS
    # Whether the script has spaces; without them, a number may follow any letter but these. space:
    # between the words of a number, and before the noun.
    spaced, space, joining = True, " ", r"\w"
    point, minus, plus, to = "", "", "plus", ""
    # The words of a year from 1100 to 1999 if it is read in hundreds.
    hundred = ""
    # Whether the digits after a decimal separator are spoken one by one.
    fraction_digits = False

    @property
    def begin(self) -> str:
        """The pattern of what no number continues."""
        return rf"(?<![{self.joining}.,:/-])"

    @property
    def end(self) -> str:
        """The pattern of the end of a word."""
        return rf"(?![{self.joining}])"

    def stop(self, match: re.Match[str]) -> str:
        """The full stop at the end of a match if it ends a sentence, too: "at 9 p.m. Then"."""
        return ""

    def cardinal(self, number: int, gender: str = "") -> str:
        """An integer in words. gender: of the noun that it counts."""
        rules = self.cardinals.get(gender) or self.cardinals.get("m") or "numbering"
        return self._corrected(spell(self.code, number, rules))

    def ordinal(self, number: int, gender: str = "m") -> str:
        """The first, the second, …"""
        rules = self.ordinals.get(gender) or self.ordinals.get("m") or "ordinal"
        return spell(self.code, number, rules)

    def year(self, number: int) -> str:
        """A year in words."""
        if not (self.hundred and 1100 <= number <= 1999):
            return self.cardinal(number)
        hundreds, rest = divmod(number, 100)
        words = self.cardinal(hundreds), self.cardinal(rest) if rest else ""
        return self.hundred.format(*words).strip()

    def digits(self, text: str) -> str:
        """The digits of a text, one by one."""
        return self.space.join(self.digit(int(digit)) for digit in text if digit.isdecimal())

    def digit(self, number: int) -> str:
        """One digit of a telephone number."""
        if number == 0 and self.zero_digit:
            return self.zero_digit
        return self._corrected(spell(self.code, number, self.digit_rules))

    def _corrected(self, words: str) -> str:
        for wrong, right in self.corrections:
            words = words.replace(wrong, right)
        return words

    def number(self, text: str, gender: str = "") -> str:
        """A written number, with its separators, in words."""
        return self.words(self.parse(text), gender)

    def words(self, number: WrittenNumber, gender: str = "") -> str:
        """A parsed number in words."""
        if number.parts:
            return f" {self.point} ".join(self.whole(part) for part in number.parts)
        if not number.fraction:
            return self.whole(number.whole, gender)
        return self.decimal_words(number)

    def decimal_words(self, number: WrittenNumber) -> str:
        """A number with a fraction in words."""
        parts = (self.whole(number.whole), self.point, self.fraction(number.fraction))
        return self.space.join(parts)

    def fraction(self, digits: str) -> str:
        """The digits after the decimal separator; two digits are read as a number."""
        if self.fraction_digits or len(digits) > 2 or digits.startswith("0"):
            return self.digits(digits)
        return self.cardinal(int(digits))

    def whole(self, digits: str, gender: str = "") -> str:
        """Digits without separators: as a number, or one by one (007, account numbers)."""
        if len(digits) > MAX_DIGITS or (len(digits) > 1 and digits.startswith("0")):
            return self.digits(digits)
        return self.cardinal(int(digits), gender)

    def parse(self, text: str) -> WrittenNumber:
        """Parses a written number, which has only digits, spaces, points and commas."""
        text = text.replace(" ", "")
        marks = re.findall("[.,]", text)
        if not marks:
            return WrittenNumber(text)
        last, one_mark = marks[-1], len(set(marks)) == 1
        whole, _, fraction = text.rpartition(last)
        thousands = rf"[1-9]\d{{0,2}}(?:[{last}]\d{{3}})+"
        if last == "," and one_mark and re.fullmatch(r"\d{1,2}(?:,\d{2})+,\d{3}", text):
            return WrittenNumber(text.replace(",", ""))  # 1,23,456 in India
        if one_mark and (last == self.group or len(marks) > 1) and re.fullmatch(thousands, text):
            return WrittenNumber(text.replace(last, ""))
        if marks.count(last) == 1:
            return WrittenNumber(re.sub("[.,]", "", whole), fraction)
        return WrittenNumber("0", parts=tuple(filter(None, re.split("[.,]", text))))

    def form(self, number: WrittenNumber, noun: Noun) -> str:
        """The form of a noun after a number."""
        if number.fraction:
            return noun.part
        return noun.one if number.value == 1 else noun.few

    def counted(self, amount: str, noun: Noun) -> str:
        """An amount (`5`, `-5`, `5-7`) of a noun, in words."""
        _, first, second = self.amount(amount)
        form = self.form(self.parse(second or first), noun)
        return f"{self.amount_words(amount, noun.gender)}{self.space}{form}".rstrip()

    def amount_words(self, amount: str, gender: str = "") -> str:
        """An amount without its noun, in words."""
        sign, first, second = self.amount(amount)
        spoken = [sign, self.number(first, gender)]
        if second:
            spoken += [self.to, self.number(second, gender)]
        return self.space.join(spoken).strip()

    def amount(self, text: str) -> tuple[str, str, str]:
        """The sign in words, the number, and the end of a range."""
        sign = {"-": self.minus, "+": self.plus}.get(text[0], "")
        first, *rest = re.split(r"\s?[–—-]\s?", text.lstrip("-+"))
        return sign, first, rest[0] if rest else ""

    def shifted(self, amount: str, power: int) -> str:
        """An amount (`1.5`, `5-7`) times ten to a power, in digits."""

        def times(match: re.Match[str]) -> str:
            number = self.parse(match[0])
            if number.parts:
                return match[0]
            moved, rest = number.fraction[:power], number.fraction[power:]
            whole = str(int(number.whole + moved.ljust(power, "0")))
            return f"{whole}.{rest}" if rest else whole

        return re.sub(r"[0-9](?:[0-9., ]*[0-9])?", times, amount)

    @cached_property
    def written(self) -> str:
        """The pattern of a written number, such as 1.234.567,89."""
        plain = r"[0-9]+(?:[.,][0-9]+)*"
        if not self.spaced_groups:
            return plain
        return rf"(?:{self.spaced_groups}(?! ?[0-9])(?:[.,][0-9]+)?|{plain})"

    @cached_property
    def signed(self) -> str:
        """The pattern of an amount: a number with its sign, or a range."""
        sign, start = rf"(?:(?<![{self.joining}.,)%°-])[-+])?", r"(?<![0-9])(?<![0-9][.,])"
        return rf"{sign}{start}{self.written}(?:(?:-|\s?[–—]\s?){self.written})?"
