"""LanguageRules: the patterns and steps that all languages share.

A language is a subclass with its words, which overrides what it reads differently. The steps run
one after another over the text. A step replaces what it reads by words, so that no later step reads
it again. Every pattern takes linear time, because texts are untrusted.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from xtts.text import formulas
from xtts.text.cleaning import GROUP
from xtts.text.normalization import (
    emergency_numbers,
    formula_signs,
    numerals,
    roman_numerals,
    short_months,
)  # fmt: skip
from xtts.text.normalization.bars import RATIO, BarRules, is_numbered
from xtts.text.normalization.nouns import Money, Noun, alternatives
from xtts.text.normalization.numbers import ANY_GROUPS, APART, WrittenNumber
from xtts.text.sentences import SentenceEnds

Step = Callable[[str], str]
Pattern = re.Pattern[str]
# For what a language does not write: fails fast, at a letter that no text has, and has the groups
# that replacements name.
NEVER = re.compile("\ue8fe(?!)()()")
_HOURS_TO = re.compile(
    r"(?<![\w.,:/-])([0-9]{1,2})()\s?[–—-]\s?(?=[0-9]{1,2}:[0-5][0-9](?![\d:]))", re.ASCII
)


@dataclass(frozen=True)
class ClockTime:
    """A time of day. minute: None if only the hour is written; before, after: the text around
    it."""

    hour: int
    minute: int | None
    second: int | None = None
    before: str = ""
    after: str = ""

    @property
    def full_hour(self) -> bool:
        """Whether it has no minutes or seconds."""
        return not self.minute and self.second is None


class LanguageRules(BarRules):
    """The rules of one language. Immutable, thread-safe."""

    months: ClassVar[tuple[str, ...]] = ()
    # A date without its year, and with it; the first of a month if that is an ordinal; marks after
    # a day and a year beside the name of a month.
    date_forms, first_day = ("{day} {month}", "{day} {month} {year}"), ""
    day_mark = r"(?:\.|º|°|er|st|nd|rd|th)?\s(?:de\s|of\s)?"
    year_mark = r"(?:(?:\sde|\sdel|,)?\s([0-9]{4})(?![\w.,]?\d))?"
    # The order of day and month in numeric dates.
    month_first = False
    # Words before a telephone number whose groups could be those of a number.
    calling = "tel"
    abbreviations: ClassVar[Mapping[str, str]] = {}
    # The words around the numbers of a time, between hour and minutes, and before minutes of one
    # digit; the gender of these numbers.
    hour_form, minute_form, second_form = "{}", "{}", " {}"
    minute_joiner, zero_minute = " ", ""
    hour_gender, minute_gender = "", ""
    # Hour and minutes (groups 1 and 2): of a time in the notation of the language, of the first
    # time of a range, and before a sign that marks a time; and words after which 8.30 is a time.
    clock: ClassVar[Pattern] = NEVER
    clock_range: ClassVar[Pattern] = _HOURS_TO
    clock_sign: ClassVar[Pattern] = NEVER
    clock_words = "(?!)"
    # A written ordinal (its number and its mark), and the feminine marks.
    ordinal_mark: ClassVar[Pattern] = NEVER
    feminine_marks: ClassVar[tuple[str, ...]] = ()
    # A symbol or number (group 1), and its ending (group 2) after a joiner.
    suffix: ClassVar[Pattern] = NEVER
    # A year (group 2), alone or after a word that marks it (group 1), which is kept.
    year_marks: ClassVar[tuple[Pattern, ...]] = ()
    # The words of scales, those that mean a thousand, and the nouns of the others by powers of ten.
    # A thousand, or a scale without a noun, is read as one number together with its amount.
    scales: ClassVar[tuple[str, ...]] = ()
    thousands: ClassVar[tuple[str, ...]] = ()
    scale_nouns: ClassVar[Mapping[int, Noun]] = {}
    # Abbreviations of scales with their powers of ten, and those that are valid only with a
    # currency, in any case: 5 m is five metres, $5m five million dollars.
    scale_marks: ClassVar[Mapping[str, int]] = {}
    money_marks: ClassVar[Mapping[str, int]] = {}
    # The word between a million, or more, and the noun: millions *of* euros.
    scale_joiner = money_joiner = " "
    # Whether nouns have capitals.
    capital_nouns = False
    # The words for squared, cubed and other powers.
    powers = ("", "", "")

    def read(self, text: str) -> str:
        """The text in words."""
        text = numerals.plain_digits(formulas.spoken(text))
        text = roman_numerals.figures(text, self.code)
        text = _PLAIN_POWER.sub(lambda m: m[1] + "²³"[m[2] == "3"], text)
        if GROUP in text:
            text = text.replace(GROUP, " " if self.spaced_groups == ANY_GROUPS else self.group)
        text = _LISTED.sub(lambda m: m[0].replace(",", ", "), text)
        if self.spaced:
            text = _SIDE_BY_SIDE.sub(_apart, text)
        text = _BARE_DECIMAL.sub("0", text)  # .5 is 0.5
        text = _DATE_AND_TIME.sub(r" \1", _NO_CENTS.sub("", text))
        text = self.suffix.sub(rf"\1{_JOINED}\2", text)
        text = self.read_abbreviations(self.read_short_months(text))
        # Most texts have no number left.
        for step in (
            self.steps if _DIGIT.search(text) else (self.read_formula_signs, self.read_signs)
        ):
            text = step(text)
        return re.sub(rf"\s?{_JOINED}\s?", "", " ".join(text.replace(APART, " ").split()))

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The steps for numbers, in order: the most specific patterns first."""
        return (
            self.read_dates, self.read_services, self.read_phones, self.read_identifiers,
            self.read_pairs, self.read_formula_signs, self.read_clock_words, self.read_spans,
            self.read_times, self.read_rate_of_amounts, self.read_money, self.read_percents,
            self.read_years, self.read_units, self.read_ordinals, self.read_ranges,
            self.read_ratios, self.read_signs, self.read_numbers,
        )  # fmt: skip

    @cached_property
    def sentences(self) -> SentenceEnds:
        """Where the sentences of the language end."""
        return SentenceEnds(self.code, self.abbreviations)

    def stop(self, match: re.Match[str]) -> str:
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
        return formula_signs.reader(self.code, self.powers[2], self.plus)

    @cached_property
    def read_short_months(self) -> Step:
        """Writes short names of months in full: 5 Jan 2024."""
        return short_months.reader(self.code, self.months)

    @cached_property
    def read_services(self) -> Step:
        """Reads emergency and service numbers digit by digit."""
        return emergency_numbers.reader(self.code, self.calling, self.phone, self.digits)

    @cached_property
    def read_abbreviations(self) -> Step:
        """Reads abbreviations such as `e.g.`, also at the end of a sentence, and fraction
        characters."""
        names = sorted(self.abbreviations, key=len, reverse=True)
        any_name = "|".join(map(self._abbreviation, names)) or "(?!)"
        pattern = re.compile(rf"(?<![\w.])(?:{any_name})")
        folded = {_folded(name.rstrip("#")): words for name, words in self.abbreviations.items()}

        def spoken(match: re.Match[str]) -> str:
            return folded[_folded(match[0])] + self.stop(match)

        return lambda text: self.read_fractions(pattern.sub(spoken, text))

    def _abbreviation(self, name: str) -> str:
        """The pattern of an abbreviation, whose first letter may be a capital; `#` at its end
        requires a number after it."""
        plain = name.rstrip("#")
        start, first = re.escape(plain[0]), plain[0]
        if first.isalpha() and first.islower():
            start = f"[{first}{first.upper()}]"
        rest = re.escape(plain[1:]).replace(r"\ ", r"\s?")
        # Behind a number it is the unit: 5 min. are five minutes.
        counted = map(_stem, (*self.units, *self.scale_marks))
        before = r"(?<![0-9])(?<![0-9]\s)" if _stem(plain) in counted else ""
        return before + start + rest + (r"(?=\s?[0-9])" if name.endswith("#") else self.end)

    def read_dates(self, text: str) -> str:
        """Reads numeric dates (2024-03-05, 5.3.2024, 5/3/2024), then those with the month's
        name."""
        order = (3, 2) if self.month_first else (2, 3)
        text = _ISO_DATE.sub(lambda m: self.dated(m, m[3], m[2], m[1]) or m[0], text)
        text = self._day_and_month.sub(
            lambda m: m[1] + (self.dated(m, *m.group(*order)) or f"{m[2]}/{m[3]}"),
            _FIGURES_DATE.sub(self._ordered, text),
        )
        return self.read_named_dates(self.read_day_spans(text))

    @cached_property
    def read_day_spans(self) -> Step:
        """Reads the first day of a range: 3-5 May."""
        pattern = re.compile(
            r"(?<![\w.,/-])([0-9]{1,2})(?:\.|er|[º°])?\s?[–—-]\s?"
            rf"(?=[0-9]{{1,2}}(?:\.|st|nd|rd|th)?\s(?:de\s|of\s)?(?:{alternatives(self.months)})(?!\w))",
            re.IGNORECASE,
        )

        def spoken(match: re.Match[str]) -> str:
            if not 1 <= int(match[1]) <= 31:
                return match[0]
            day = self.day(int(match[1]), match.string[: match.start()])
            return f"{day} {self.to} "

        return lambda text: pattern.sub(spoken, text)

    def _ordered(self, match: re.Match[str]) -> str:
        day, month = match[1], match[3]
        swapped = self.month_first and match[2] == "/"
        if int(day if swapped else month) > 12:
            swapped = not swapped
        if swapped:
            day, month = month, day
        return self.dated(match, day, month, match[4]) or match[0]

    @cached_property
    def _day_and_month(self) -> re.Pattern[str]:
        return re.compile(
            rf"(?<!\w)((?:{self.date_words})\s)([0-9]{{1,2}})/([0-9]{{1,2}})(?![\w/%]|[.,]\d|\s(?:d|of\b))",
            re.IGNORECASE,
        )

    def dated(self, match: re.Match[str], day: str, month: str, year: str | None = None) -> str:
        """The date of a match in words; "" if there is no such date."""
        if not (1 <= int(month) <= 12 and 1 <= int(day) <= 31):
            return ""
        before = match.string[: match.start()]
        return self.date(int(day), int(month), int(year) if year else None, before)

    def date(self, day: int, month: int, year: int | None, before: str = "") -> str:
        """A date in words. before: the text before it, which may govern its case."""
        said = "" if year is None else self.year(year)
        return self.date_forms[year is not None].format(
            day=self.day(day, before), month=self.month(month), year=said
        )

    def month(self, number: int) -> str:
        """The name of a month, or its number."""
        return self.months[number - 1] if self.months else self.cardinal(number)

    def day(self, number: int, before: str = "") -> str:
        """The day of a month."""
        return self.first_day if self.first_day and number == 1 else self.cardinal(number)

    @cached_property
    def read_named_dates(self) -> Step:
        """Reads dates with the name of the month: 5 March 2024."""
        known = {name.casefold(): str(month) for month, name in enumerate(self.months, start=1)}
        pattern = re.compile(
            rf"(?<![\w.,])([0-9]{{1,2}}){self.day_mark}({alternatives(self.months)})(?!\w)"
            + self.year_mark,
            re.IGNORECASE,
        )
        return lambda text: pattern.sub(
            lambda m: (
                f"{words}{self.stop(m)}"
                if (words := self.dated(m, m[1], known[m[2].casefold()], m[3]))
                else m[0]
            ),
            text,
        )

    @cached_property
    def read_phones(self) -> Step:
        """Reads card numbers, and telephone numbers, which are recognised by their form or by the
        word before them."""
        called = re.compile(
            rf"((?<!\w)(?:{self.calling})\b[^\d\n+(]{{0,12}})({_GROUPS})(?![\d.,]\d)", re.IGNORECASE
        )

        def if_long(text: str, digits: int) -> str:
            return self.phone(text) if sum(map(str.isdigit, text)) >= digits else text

        def step(text: str) -> str:
            text = called.sub(lambda m: m[1] + if_long(m[2], 6), _CARD.sub(self._card, text))
            return _PHONE.sub(lambda m: if_long(m[0], 7), text)

        return step

    def phone(self, text: str) -> str:
        """A telephone number, group by group."""
        plus = f"{self.plus} " if text.startswith("+") else ""
        return plus + ", ".join(self.digits(part) for part in re.findall(r"\d+", text))

    def read_identifiers(self, text: str) -> str:
        """Reads chains of digits and dashes, and long numbers, digit by digit."""
        return _LONG.sub(lambda m: f" {self.digits(m[0])} ", _CHAIN.sub(self._identifier, text))

    def _card(self, match: re.Match[str]) -> str:
        return f"{match[1] or ''} {', '.join(map(self.digits, match[2].split()))}".strip()

    def _identifier(self, match: re.Match[str]) -> str:
        """Reads three or more groups; two groups only if they cannot be a range, because they count
        down or grow a thousandfold."""
        groups = re.findall("[0-9]+", match[0])
        count = sum(map(len, groups))
        if len(groups) == 2:
            first, second = groups
            falls = int(second) <= int(first) and min(map(len, groups)) >= 3
            leaps = len(second) >= len(first) + 3 and not second.endswith("000")
            return self.phone(match[0]) if count >= 7 and (falls or leaps) else match[0]
        if count < 7 and all(one == "0" or one[0] != "0" for one in groups):
            return self.space.join(self.cardinal(int(one)) for one in groups)
        return ", ".join(self.digits(one) for one in groups)

    def read_clock_words(self, text: str) -> str:
        """Writes a colon in times that a word or a sign marks, and reads the first hour of a range:
        9-17:30."""
        text = self.clock_sign.sub(
            lambda m: f"{m[1]}:{m[2]}{self.stop(m)}", self.clock_range.sub(self._until, text)
        )
        return re.sub(
            rf"(?<!\w)((?:{self.clock_words})\s)([0-9]{{1,2}})\.([0-5][0-9])"
            r"(?:(\s?[–—-]\s?)([0-9]{1,2})\.([0-5][0-9]))?(?![\d.,]\d|\d)",
            lambda m: f"{m[1]}{m[2]}:{m[3]}" + (f"{m[4]}{m[5]}:{m[6]}" if m[4] else ""),
            text,
        )

    def _until(self, match: re.Match[str]) -> str:
        """The first time of a range."""
        hour, minutes = match.groups()
        time = f"{hour}:{minutes}" if minutes else self.cardinal(int(hour), self.hour_gender)
        return f"{time}{self.space}{self.to} "

    @cached_property
    def read_spans(self) -> Step:
        """Writes the dash of a range as a word if both amounts have a unit: 9:00-17:30, 5%-10%,
        $5-$10. `signed` matches ranges with one unit."""
        number, sign = self.written, alternatives(self.currencies)
        marks, units = map(alternatives, (self._money_marks, (*self.units, *self.scale_marks)))
        end = "(?![^\\W_])" if self.spaced else "(?![0-9A-Za-z])"
        behind = rf"(?:\s?(?:(?:{marks})?\s?(?:{sign})|%|(?:{units}))|[kM]){end}"
        ordinal = r"(?:\.?[ºª°ᵉ]|st|nd|rd|th|ste|de|e|er|re|ère|ème|-й|-я|-е)"
        pattern = re.compile(
            rf"{self.begin}(?:"
            rf"(?P<left>[0-9]{{1,2}}:[0-5][0-9](?:\s?[ap]\.?m\b\.?)?|[0-9]{{1,2}}\s?[ap]\.?m\b\.?"
            rf"|[0-9]{{1,2}}h(?:[0-5][0-9])?(?!\w)|{number}{behind}|[0-9]{{1,6}}{ordinal}(?=[–—-][0-9]{{1,6}}{ordinal}))"
            rf"{_DASH}(?=-?(?:(?:{sign})\s?)?[0-9])"
            rf"|(?P<price>(?P<sign>{sign})\s?{number}\s?(?P<scale>(?:{marks}){end})?){_DASH}"
            rf"(?=(?P<again>{sign})?\s?{number}\s?(?:{marks})?{end}))",
            re.IGNORECASE,
        )
        to = f"{self.space}{self.to} "

        def spoken(match: re.Match[str]) -> str:
            if match["left"]:
                return match["left"] + to
            if match["again"]:
                return match["price"] + to
            return f"{match['price']}{to}{match['sign']}" if match["scale"] else match[0]

        return lambda text: pattern.sub(spoken, text) if _DASHES.search(text) else text

    def read_times(self, text: str) -> str:
        """Reads times of day: 14:30, 14:30:05, and those of `clock`."""
        return _TIME.sub(self._timed, self.clock.sub(self._timed, text))

    def _timed(self, match: re.Match[str]) -> str:
        hour, minute, second = (int(one) if one else None for one in (*match.groups(), "")[:3])
        if (hour or 0) > 24 or (minute or 0) > 59 or (second or 0) > 59:
            return match[0]
        before, after = match.string[: match.start()], match.string[match.end() :]
        return self.time(ClockTime(hour or 0, minute, second, before, after))

    def time(self, at: ClockTime) -> str:
        """A time of day in words."""
        spoken = self.hours(at.hour)
        if not at.full_hour:
            spoken += self.minute_joiner + self.minutes(at.minute or 0)
        if at.second is None:
            return spoken
        return spoken + self.second_form.format(self.cardinal(at.second, self.minute_gender))

    def hours(self, hour: int) -> str:
        """The hour of a time."""
        return self.hour_form.format(self.cardinal(hour, self.hour_gender))

    def minutes(self, minute: int) -> str:
        """The minutes of a time."""
        zero = self.zero_minute if minute < 10 else ""
        return self.minute_form.format(zero + self.cardinal(minute, self.minute_gender))

    @cached_property
    def read_money(self) -> Step:
        """Reads amounts of money, with the sign before or after them."""
        known = {_folded(sign): money for sign, money in self.currencies.items()}
        signs = alternatives(self.currencies)
        powers = {form: power for power, noun in self.scale_nouns.items() for form in noun.forms}
        powers |= dict.fromkeys(self.thousands, 3) | self._money_marks
        marks = {_folded(mark): power for mark, power in powers.items()}
        scales = alternatives((*self.scales, *self._money_marks))
        end = r"(?![^\W\d_])" if self.spaced else "(?![A-Za-z])"
        scale = rf"(?:\s?({scales})(?:{end}|(?=(?:{signs}){self.end}))(?:\s(?:de|di|d'))?)?"
        # A sign behind its number, unless it touches the next number: 10 $20. A year takes none
        # before a number: "In 2020 USD 20 million".
        behind = (
            rf"(?!(?<=\b[IiEe][nm] )[12][0-9]{{3}}\s(?:{signs})\s[0-9])"
            rf"({self.signed}){scale}\s?({signs}){self.end}{self.per}"
        )
        codes = alternatives(sign for sign in self.currencies if sign.isalpha())
        before = (
            rf"(?<![{self.joining}])(-?)((?=\W)(?P<symbol>))?({signs})\s?({self.signed}){scale}"
            rf"(?(symbol)(?:\s?({codes})(?!\w))?){self.per}"
        )
        # One pattern from left to right, so that no number takes the sign of the one before it.
        either = re.compile(f"{behind}|{before}", re.IGNORECASE)
        cents = re.compile(rf"({self.begin}[0-9]{{1,6}})({signs})([0-9]{{2}})(?![\w]|[.,][0-9])")

        def spoken(sign: str, amount: str, scale_word: str | None) -> str:
            money, word = known[_folded(sign)], scale_word or ""
            if power := marks.get(_folded(word)):
                return self.scaled(amount, power, money)
            if word:
                return f"{self.amount_words(amount)} {word}{self.scale_joiner}{money.unit.many}"
            return self.money(amount, money)

        def signed(match: re.Match[str]) -> str:
            amount, scale, sign, unit, *others = match.groups()
            minus, _, _, first, after_sign, its_scale, code, its = others
            if sign:
                return (
                    spoken(sign, amount, scale) + self.rate(unit, of_money=True) + self.stop(match)
                )
            words = spoken(code or first, minus + after_sign, its_scale)
            words += self.rate(its, of_money=True)
            after = match.string[match.end() : match.end() + 1]
            stop = self.stop(match)
            return words + stop + (" " if self.spaced and not stop and after.isalnum() else "")

        mark = "," if self.group != "," else "."
        return lambda text: either.sub(signed, cents.sub(rf"\1{mark}\3\2", text))

    @cached_property
    def _money_marks(self) -> dict[str, int]:
        return {**_MONEY_MARKS, **self.scale_marks, **self.money_marks}

    def scaled(self, amount: str, power: int, money: Money) -> str:
        """An amount of money with its scale: 3.5 billion dollars."""
        noun = self.scale_nouns.get(power)
        if noun is None:
            return self.counted(self.shifted(amount, power), money.unit)
        return f"{self.counted(amount, noun)}{self.scale_joiner}{money.unit.many}"

    def money(self, amount: str, money: Money) -> str:
        """An amount of money in words; a fraction of two digits is read as cents."""
        sign, first, second = self.amount(amount)
        number = self.parse(first)
        if second or money.cent is None or len(number.fraction) != 2:
            return self.counted(amount, money.unit)
        whole, cents = WrittenNumber(number.whole), WrittenNumber(str(int(number.fraction)))
        parts = [(whole, money.unit), (cents, money.cent)]
        parts = [one for one in parts if one[0].value] or parts[:1]
        words = (f"{self.words(n, noun.gender)} {self.form(n, noun)}" for n, noun in parts)
        return f"{sign} {self.money_joiner.join(words)}".strip()

    @cached_property
    def read_percents(self) -> Step:
        """Reads percentages: 14 %, also written %14."""
        behind = re.compile(rf"({self.signed})(?:%|\s%(?![0-9])){self.per}")
        before = re.compile(rf"(?<![\w%])%({self.written}(?:\s?[–—-]\s?%?{self.written})?)")

        def spoken(match: re.Match[str]) -> str:
            return self.percentage(match[1].replace("%", ""))

        def rated(match: re.Match[str]) -> str:
            return spoken(match) + self.rate(match[2]) + self.stop(match)

        return lambda text: before.sub(spoken, behind.sub(rated, text))

    def percentage(self, amount: str) -> str:
        """A percentage in words."""
        return self.counted(amount, self.percent)

    @cached_property
    def read_units(self) -> Step:
        """Reads amounts with units: 5 kg, 60 km/h, 20 °C, and those with a scale: 3,5 Mio."""
        end = self.unit_end
        units = re.compile(rf"({self.signed})\s?({alternatives(self.units)}){self.per}(?(3)|{end})")
        marks = re.compile(
            rf"({self.signed})(?:\s?({alternatives(self.scale_marks)})|([kKMBКМк])){end}"
        )
        joiner = self.scale_joiner.strip()
        # Before a noun: a 100-g bar, ein 5-kg-Sack.
        names = alternatives(
            sign for sign in self.units if sign.isascii() and sign.strip(".").isalpha()
        )
        hyphened = re.compile(
            rf"{self.begin}([0-9]{{1,4}}(?:[.,][0-9]{{1,3}})?(?:[-–][0-9]{{1,4}})?)-({names})(?![\w/.]|\s?\d)(?=-?\s?[^\W\d])"
        )

        def before_noun(match: re.Match[str]) -> str:
            noun = self.units[match[2]]
            return (
                match[0]
                if is_numbered(match)
                else f"{self.amount_words(match[1], noun.gender)} {noun.one}"
            )

        def scaled(match: re.Match[str]) -> str:
            amount, mark = match[1], match[2] or match[3]
            before, after = match.string[: match.start()], match.string[match.end() :]
            if match[3] and mark not in "kKк" and _SIZED.match(after):
                return match[0]
            # A name follows, as in 221B Baker Street.
            named = mark == "B" and not self.capital_nouns and re.match(r"\s[A-Z][a-z]", after)
            if match[3] and (named or _LABEL.search(before)):
                return match[0]
            if match[3] and len(amount) < 2 and not self._counts(before, amount, mark, after):
                return match[0]
            power = self.scale_marks.get(mark) or _MONEY_MARKS[_LATIN.get(mark, mark.lower())]
            dot = self.stop(match)
            noun = self.scale_nouns.get(power)
            if noun is None:
                return self.amount_words(self.shifted(amount, power)) + dot
            of = f" {joiner}" if joiner and _TAKES_JOINER.match(after) else ""
            return self.counted(amount, noun) + of + dot

        def counted(match: re.Match[str]) -> str:
            words = self.counted(match[1], self.units[match[2]])
            return words + self.rate(match[3]) + self.stop(match)

        return lambda text: marks.sub(
            scaled, units.sub(counted, hyphened.sub(before_noun, text) if "-" in text else text)
        )

    def _counts(self, before: str, digit: str, mark: str, after: str) -> bool:
        """Whether k, M or B after a digit is a scale: 5M users, over 2M in cash. 4K is a screen, 3M
        a company, 5B a room, a height of 2M metres."""
        if re.match(rf"\s?{re.escape(self.to)}\s?[0-9.,]+{mark}", after):
            return True
        is_company = (digit, mark) == ("3", "M")
        if mark in "MBМ" and _ABOUT.search(before) and not (is_company and _TOPIC.search(before)):
            return not _LENGTH.search(before)
        noun = _COUNTED.match(after) or (self.capital_nouns and _COUNTED_NOUN.match(after))
        if not noun or is_company:
            return False
        return (mark != "K" or digit not in "2468") and (
            mark not in "kKк" or not _SCREEN.match(after)
        )

    def read_ordinals(self, text: str) -> str:
        """Reads ordinals such as 2nd."""
        return self.ordinal_mark.sub(self._ordinal, text)

    def _ordinal(self, match: re.Match[str]) -> str:
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
        dash = r"(?:-|\s?[–—]\s?)" if self.spaced else r"(?:[-~]|\s?[–—]\s?)"
        pattern = re.compile(
            rf"(?<![{self.joining}.,-])({self.written}){dash}({self.written})(?![{self.joining}-])"
        )
        year = re.compile("1[1-9][0-9]{2}|20[0-9]{2}")

        def spoken(match: re.Match[str]) -> str:
            first, second = match[1], match[2]
            if first == second:  # 50-50
                return f"{self.number(first)} {self.number(second)}"
            small = re.fullmatch("[0-9]{1,2} [0-9]{1,2}", f"{first} {second}")
            if self.code == "de" and small and int(first) > int(second):  # a score
                return f"{self.number(first)} {RATIO['de']} {self.number(second)}"
            is_year = year.fullmatch(first)
            if is_year and year.fullmatch(second):
                return f"{self.year(int(first))} {self.to} {self.year(int(second))}"
            # 1998-99
            short = is_year and len(second) == 2 and int(second) > int(first[2:])
            begun = self.year(int(first)) if short else self.number(first)
            return f"{begun} {self.to} {self.number(second)}"

        return lambda text: pattern.sub(spoken, text)

    def read_signs(self, text: str) -> str:
        """Reads numeric characters: powers, subscripts, ①, Ⅳ."""
        if text.isascii():
            return text
        parts = list[str]()
        for kind, part in numerals.runs(text):
            if kind == "raised":
                parts.append(self._raised(numerals.figures_of(part), "".join(parts)[-3:]))
            elif kind == "lowered":
                parts.append(f" {self.amount_words(numerals.figures_of(part) or '0')} ")
            elif kind == "fraction":
                parts.append(f" {self.part_words(*numerals.fraction_of(part))} ")
            elif kind == "number" or (kind == "ideograph" and self.spaced):
                parts.append(f" {self.amount_words(numerals.value_of(part))} ")
            else:
                if parts and part[0] in ",.;:!?)":
                    parts[-1] = parts[-1].rstrip()
                parts.append(part)
        return "".join(parts)

    def _raised(self, figures: str, before: str) -> str:
        """A superscript: a power after a number, a bracket or a variable, else a number."""
        if not figures.strip("-"):
            return ""
        square, cube, other = self.powers
        if not (other and _BASE.search(before)):
            return f" {self.amount_words(figures)} "
        known = {"2": square, "3": cube}.get(figures)
        return f" {known or other.format(self.amount_words(figures))} "

    @cached_property
    def read_numbers(self) -> Step:
        """Reads all remaining numbers."""
        pattern = re.compile(self.signed)

        def step(text: str) -> str:
            if not self.spaced:  # the space would not keep two numbers apart
                text = _BETWEEN_NUMBERS.sub(", ", text)
            return pattern.sub(self._numbered, _PADDED.sub(r"\1", text))

        return step

    def _numbered(self, match: re.Match[str]) -> str:
        before, after = match.string[: match.start()], match.string[match.end() :]
        spoken = self.amount_words(match[0], self.gender_before(match[0], after))
        # Another language's "5th", or "mp3": a space separates the word from the number.
        left, right = (" " * (self.spaced and one.isalnum()) for one in (before[-1:], after[:1]))
        return left + spoken + right

    def gender_before(self, amount: str, after: str) -> str:
        """The gender of the noun after a number, if the numeral agrees with it and its ending shows
        the gender; else ""."""
        return ""

    # --- For `say-as`

    def letters(self, text: str) -> str:
        """The characters of a text, one by one."""
        spoken = (self.digit(int(one)) if one in "0123456789" else self.letter(one) for one in text)
        return ", ".join(filter(None, spoken))

    def letter(self, character: str) -> str:
        """The name of a letter; the letter itself if it needs none."""
        return character if character.isalnum() else ""


# Separates a number from its ending until both are read. Texts cannot contain it.
_JOINED = "\ue8ff"
_ISO_DATE = re.compile(
    r"(?<![\w.-])([12][0-9]{3})[-/]([0-9]{1,2})[-/]([0-9]{1,2})(?![\d-])", re.ASCII
)
_FIGURES_DATE = re.compile(
    r"(?<![\w.,/-])([0-9]{1,2})(?:([/-])|\.\s?)([0-9]{1,2})(?(2)[/-]|\.\s?)([12][0-9]{3})(?![\d/-])",
    re.ASCII,
)
# A noun that 5M can count: four lower-case letters or more, or a word in a script without capitals.
# (German nouns have capitals: `_COUNTED_NOUN`.)
_COUNTED = re.compile(
    r"\s?(?:d[ei]\s|d['’])?(?:(?!(?:from|with|that|then|when|were|have|will|also|sind|oder|wird|dans|"
    r"pour|para|como|sono|della|niet|voor)\b)(?:(?![A-ZÀ-ÖØ-ÞА-ЯЁ])[a-zß-öø-ÿœŒĀ-ſа-яё]){4}"
    r"|(?![A-Za-zÀ-ſА-яЁё])[^\W\d_])"
)
# The noun after a scale takes a joiner, "millions de voix"; a preposition or a verb does not.
_TAKES_JOINER = re.compile(
    r"\s(?!(?:d[ei]|en|in|em|na|no|nel|nella|dans|sur|sous|por|para|pour|par|per|a|à|al|au|aux|con|"
    r"avec|com|sin|sans|y|e|et|o|ou|que|qui|che|ont|est|sont|son|sono|são|foi|è)\b|d['’])[^\W\d_]",
    re.I,
)
# An estimated number cannot be a name: over 2M, knapp 3M, cerca de 5M.
_ABOUT = re.compile(
    r"(?:(?<!\w)(?:over|about|around|nearly|almost|roughly|approximately|under|than|at least|up to|"
    r"über|rund|etwa|fast|knapp|circa|ca\.|mindestens|mehr als|weniger als|bis zu|environ|presque|"
    r"(?:près|plus|moins) de|au moins|casi|(?:más|menos|cerca|alrededor|mais) de|aproximadamente|"
    r"quasi|oltre|più di|meno di|quase|bijna|ongeveer|ruim|meer dan|ponad|około|prawie|niemal|přes|"
    r"asi|téměř|okolo|более|около|почти|свыше|yaklaşık|közel|mintegy|több mint)\s"
    r"|(?:超过|大约|约|約|약)\s?)$",
    re.I,
)
_TOPIC = re.compile(r"\b(?:about|than|under)\s$", re.I)
# 2M is not two million after a word for a length, or before one for a size or a part ("cable").
_LENGTH = re.compile(
    r"(?<!\w)(?:height|depth|length|width|distance|höhe|tiefe|länge|breite|hauteur|longueur|altura|"
    r"longitud|altezza|lunghezza|comprimento|hoogte|lengte)\b[^.!?]{0,30}$",
    re.I,
)
_SIZED = re.compile(
    r"[\s-](?:tall|long|wide|deep|high|away|apart|of (?:rope|cable|wire|tape|pipe)|hoch|"
    r"lang|breit|tief|hoog|diep|port|board|cable|connector|plug|socket|adapter|cord|wire|rope|hose|pole|"
    r"lens|kabel|stecker|anschluss|câble|cavo|cabo)\b",
    re.I,
)
_COUNTED_NOUN = re.compile(r"\s[^\W\d_]{2}")
_LABEL = re.compile(
    r"(?<!\w)(?:usb|pi|room|flat|apartment|apt\.?|unit|gate|seat|row|suite|platform|figure|fig\.?|"
    r"section|"
    r"exercise|question|building|block|type|class|grade|table|model|group|part|step|phase|level|"
    r"appendix|route|line|bus|highway|zimmer|wohnung|raum|gleis|klasse|abbildung|abb\.|aufgabe|typ|"
    r"linie|salle|porte|classe|tableau|exercice|sala|puerta|clase|aula|porta|figura|ejercicio|"
    r"classe|esercizio|kamer|lokaal|klas|sala|klasa|tabela|třída|кабинет|класс)\s$",
    re.I,
)
_SCREEN = re.compile(
    r"[\s-]?(?:vid|v[íi]d|scr|tv|display|monitor|resol|auflös|bild|film|cam|kam|foot|run|race|lauf|"
    r"gam|content|quali|ultra|uhd|hdr|imag|pict|photo|foto|live|panel|stream|support|output|[ée]cran|"
    r"pantall|tela|scherm|schermo|видео|экран)",
    re.I,
)
# Cyrillic letters of scales, with their Latin look-alikes.
_LATIN = {"К": "k", "к": "k", "М": "m"}
# The letters of scales with a currency.
_MONEY_MARKS = {"k": 3, "m": 6, "mm": 6, "mn": 6, "mln": 6, "b": 9, "bn": 9, "t": 12, "tn": 12}
_DASHES = re.compile("[–—-]")
_DASH = r"(?:\s?[–—]\s?|-|\s-\s)"
# A card or IBAN in groups of four; digits with dashes or slashes; ten or more digits without
# separators, unless they are a round number, and fewer if a letter touches them.
_CARD = re.compile(
    r"(?<![\w.,-])(?:([A-Z]{2})(?=[0-9]{2} [0-9]{4} ))?((?:[0-9]{2} )?[0-9]{4}(?: [0-9]{4}){2,7}"
    r"(?: [0-9]{1,4})?)(?![\w-])(?![.,]\d)",
    re.ASCII,
)
_CHAIN = re.compile(
    r"(?<![\d.,+/])(?<!\d[-–])(?:[0-9]{1,3}(?:\.[0-9]{3}){2,3}[-/][0-9]{1,4}(?:-[0-9]{1,2})?"
    r"|[0-9]{1,12}(?:[-/][0-9]{1,12}){1,6})(?![\w/-])(?![.,]\d)",
    re.ASCII,
)
_LONG = re.compile(
    r"(?<![\w.,$€£¥₹₩-])[0-9]{10,24}(?<!000)(?![\w.,]?\d|\s?[%°$€£¥₹₩])"
    r"|(?<=[A-Z])[0-9]{5,24}(?![.,]?\d)|(?<![\w.,])[0-9]{7,24}(?=-?[A-Z](?!\w))",
    re.ASCII,
)
_BARE_DECIMAL = re.compile(r"(?<![^\s(\[$€£¥₹₽<>=~'\"“„-])(?=\.[0-9]+(?![\w.,/:-]?[0-9]))")
# Single and double figures with commas are a list: 1,2,3.
_LISTED = re.compile(r"(?<![\w.,])[0-9]{1,2}(?:,[0-9]{1,2}){2,20}(?!\d|[.,]\d)", re.ASCII)
_DIGIT = re.compile("[0-9]")
# A square or a cubic unit without its superscript: 30 m2, 2 kg/m3.
_PLAIN_POWER = re.compile(r"((?:(?<=[0-9])\s?|(?<=[A-Za-zа-я]/))[kdcmкдс]?[mм])([23])(?!\w)")
_BETWEEN_NUMBERS = re.compile("(?<=[0-9]) (?=[0-9])")
# Two numbers, of which the first may number a page: "page 5 100 people".
_SIDE_BY_SIDE = re.compile(r"(?<![\w.,])([0-9]{1,3}) (?=[0-9])")
# Zero-padded numbers, as in "Chapter 01".
_PADDED = re.compile(
    r"(?i:(\b(?:chapter|part|track|episode|lesson|volume|season|step|section|scene|act|kapitel|teil|"
    r"folge|chapitre|partie|épisode|capítulo|parte|episodio|episódio|capitolo|hoofdstuk|deel|"
    r"aflevering|rozdział|część|odcinek|kapitola|část|díl|fejezet|rész|bölüm|глава|часть|серия)\s))"
    r"0+(?=[1-9][0-9]{0,2}(?![\d-])(?![.,]\d))"
)
# The base of a power: a number, a bracket, a variable of one or two letters.
_BASE = re.compile(r"[0-9)\]]$|(?:^|[\W\d])(?:[^\W\d_]|[a-zα-ω]{2})$")
# A number in the American form is whole: a number behind it counts something.
_GROUPS = (
    r"(?:(?:1-)?[0-9]{3}-)?[0-9]{3}-[0-9]{4}(?![-./0-9])"
    r"|[+(]?[0-9]{1,8}\)?(?:(?:[ ./-]| [/–-] )\(?[0-9]{1,8}\)?){0,7}"
)
# Forms: international, area code in brackets, leading zero, groups with dashes, two groups of five.
_PHONE = re.compile(
    r"(?<![\w.,+-])(?:"
    r"\+[0-9]{1,3}(?:[ -]?\(?[0-9]{1,5}\)?){1,7}"
    r"|(?:[0-9]{1,2}[ -]?)?\([0-9]{2,5}\)\s?[0-9]{2,5}(?:[ -][0-9]{2,5}){1,3}"
    r"|0[0-9]{0,4}(?:[ -][0-9]{1,8}){1,5}"
    r"|0[0-9]{2,5}\s?/\s?[0-9]{2,8}(?:(?:[ -]| [–-] )[0-9]{1,6}){0,4}"
    r"|0[0-9](?:\.[0-9]{2}){4}"
    r"|[0-9]{3} [0-9]{3} [0-9]{4}|[0-9]{3}\.[0-9]{3}\.[0-9]{4}"
    r"|[0-9]{3}-[0-9]{4}|[0-9]{2,4}-[0-9]{3,4}-[0-9]{4}"
    r"|[0-9]{5} [0-9]{5}"
    r")(?![\d-])(?![.,]\d)",
    re.ASCII,
)
_TIME = re.compile(
    r"(?<![\d:.,])([0-9]{1,2}):([0-5][0-9])(?::([0-9]{2}))?(?![\d:])(?:\s?h(?:rs?)?\b)?"
)
# ISO 8601's date with a time, and a price without cents: 5,- €.
_DATE_AND_TIME = re.compile(r"(?<=\d-\d\d)T(\d\d:\d\d)(?::\d\d(?:\.\d+)?)?Z?(?!\w)")
_NO_CENTS = re.compile(r"(?<=[0-9])[,.](?:[-–—]{1,2}|=)(?!\w|\s?[0-9])")


def _apart(match: re.Match[str]) -> str:
    """The number of a chapter, a page or a size has no groups."""
    return f"{match[1]}{APART}" if is_numbered(match) else match[0]


def _stem(name: str) -> str:
    return name.rstrip(".").casefold()


def _folded(sign: str) -> str:
    return re.sub(r"\s", "", sign).casefold()
