"""Dates in words: 2024-03-05, 5/3/2024, 5 March 2024, 3-5 May."""

import re
from functools import cached_property
from typing import ClassVar

from xtts.text.normalization.numbers import NumberRules, Step, alternatives

_ISO_DATE = re.compile(r"(?<![\w.-])([12][0-9]{3})[-/]([0-9]{1,2})[-/]([0-9]{1,2})(?![\d-])", re.ASCII)
_NUMERIC_DATE = re.compile(
    r"(?<![\w.,/-])([0-9]{1,2})(?:([/-])|\.\s?)([0-9]{1,2})(?(2)[/-]|\.\s?)([12][0-9]{3})(?![\d/-])", re.ASCII
)
_ORDINAL_MARK = r"(?:\.|º|°|er|st|nd|rd|th)?"
_YEAR_AFTER_MONTH = r"[12][0-9]{3}(?![\w.,]?\d)"
_DAY_AFTER_MONTH = r"[0-9]{1,2}(?:st|nd|rd|th|\.|-)?(?![\w:%])"


class DateRules(NumberRules):
    """How a language reads dates."""

    months: ClassVar[tuple[str, ...]] = ()
    # The short names of the twelve months; `/` separates those of one month, and `-` means none. Names
    # with `*` are also words or numbers ("set", "mar", "dez"): only a full stop, a year or a dash makes
    # them months.
    short_months = ""
    # Whether only a capital begins the short name of a month.
    capital_short_months = False
    # Whether a day may follow the month: May 5.
    day_may_follow_month = False
    # A date without and with its year.
    date_form, full_date_form = "{day} {month}", "{day} {month} {year}"
    # The first day of a month, where that is an ordinal.
    first_day = ""
    # The pattern between a day and the name of its month,
    day_mark = _ORDINAL_MARK + r"\s(?:de\s|of\s)?"
    # and that of the year after the name.
    year_mark = r"(?:(?:\sde|\sdel|,)?\s([0-9]{4})(?![\w.,]?\d))?"
    # Whether 5/3/2024 is the third of May.
    month_first = False
    # Words after which 3/5 is a day and a month.
    date_words = "(?!)"

    @cached_property
    def read_short_months(self) -> Step:
        """Writes short names of months in full: 5 Jan 2024."""
        names, ambiguous = self._short_month_names()
        if not names:
            return lambda text: text
        capital = "(?=[A-ZÀ-Þ])" if self.capital_short_months else ""
        name = rf"(?-i:{capital})({'|'.join(sorted(names, key=len, reverse=True))})"
        after_day = re.compile(
            rf"(?<![\w.,:/])([0-9]{{1,2}}{_ORDINAL_MARK})(\s(?:de\s|of\s)?|-|/|\.){name}"
            rf"(?![^\W\d_])(\.?)(?:(\s(?:de\s)?|-|/|,\s)(?=[12][0-9]{{3}}(?!\w)))?",
            re.IGNORECASE,
        )
        follower = _YEAR_AFTER_MONTH + (f"|{_DAY_AFTER_MONTH}" if self.day_may_follow_month else "")
        before_number = re.compile(rf"(?<!\w){name}(\.?)(?=\s(?:{follower}))", re.IGNORECASE)

        def expand_after_day(match: re.Match[str]) -> str:
            day, joiner, short_name, dot, year_joiner = match.groups()
            is_sure = dot or year_joiner or joiner in "-/" or len(joiner) > 2
            if short_name.casefold() in ambiguous and not is_sure:
                return match[0]
            end = "." if _ends_sentence(match) else ""
            if year_joiner:
                end = year_joiner if year_joiner.startswith(" ") or year_joiner == ", " else " "
            return f"{day}{joiner if joiner.startswith(' ') else ' '}{names[short_name.casefold()]}{end}"

        def expand(match: re.Match[str]) -> str:
            short_name, dot = match[1].casefold(), match[2]
            return match[0] if short_name in ambiguous and not dot else names[short_name]

        return lambda text: before_number.sub(expand, after_day.sub(expand_after_day, text))

    def _short_month_names(self) -> tuple[dict[str, str], set[str]]:
        """The months by their short names, and the short names that are also words or numbers."""
        names, ambiguous = dict[str, str](), set[str]()
        for month, forms in zip(self.months, self.short_months.split(), strict=False):
            for form in forms.split("/"):
                short_name = form.rstrip("*").casefold()
                if short_name not in ("-", month.casefold()):
                    names[short_name] = month
                    if form.endswith("*"):
                        ambiguous.add(short_name)
        return names, ambiguous

    def read_dates(self, text: str) -> str:
        """Reads numeric dates (2024-03-05, 5.3.2024, 5/3/2024), then those with the month's
        name."""
        text = _ISO_DATE.sub(lambda m: self.date_words_of(m, m[3], m[2], m[1]) or m[0], text)
        text = _NUMERIC_DATE.sub(self._read_numeric_date, text)
        text = self._day_and_month.sub(self._read_day_and_month, text)
        return self.read_named_dates(self.read_day_spans(text))

    @cached_property
    def read_day_spans(self) -> Step:
        """Reads the first day of a range: 3-5 May."""
        pattern = re.compile(
            r"(?<![\w.,/-])([0-9]{1,2})(?:\.|er|[º°])?\s?[–—-]\s?"
            rf"(?=[0-9]{{1,2}}(?:\.|st|nd|rd|th)?\s(?:de\s|of\s)?(?:{alternatives(self.months)})(?!\w))",
            re.IGNORECASE,
        )

        def first_day(match: re.Match[str]) -> str:
            if not 1 <= int(match[1]) <= 31:
                return match[0]
            day = self.day(int(match[1]), match.string[: match.start()])
            return f"{day} {self.to} "

        return lambda text: pattern.sub(first_day, text)

    def _read_numeric_date(self, match: re.Match[str]) -> str:
        day, month = match[1], match[3]
        is_month_first = self.month_first and match[2] == "/"
        if int(day if is_month_first else month) > 12:
            is_month_first = not is_month_first
        if is_month_first:
            day, month = month, day
        return self.date_words_of(match, day, month, match[4]) or match[0]

    def _read_day_and_month(self, match: re.Match[str]) -> str:
        word, day, month = match.groups()
        words = self.date_words_of(match, *((month, day) if self.month_first else (day, month)))
        return word + (words or f"{day}/{month}")

    @cached_property
    def _day_and_month(self) -> re.Pattern[str]:
        return re.compile(
            rf"(?<!\w)((?:{self.date_words})\s)([0-9]{{1,2}})/([0-9]{{1,2}})(?![\w/%]|[.,]\d|\s(?:d|of\b))",
            re.IGNORECASE,
        )

    def date_words_of(self, match: re.Match[str], day: str, month: str, year: str | None = None) -> str:
        """The date of a match in words; "" if there is no such date."""
        if not (1 <= int(month) <= 12 and 1 <= int(day) <= 31):
            return ""
        before = match.string[: match.start()]
        return self.date(int(day), int(month), int(year) if year else None, before)

    def date(self, day: int, month: int, year: int | None, before: str = "") -> str:
        """A date in words. before: the text before it, which may govern its case."""
        form = self.date_form if year is None else self.full_date_form
        year_words = "" if year is None else self.year(year)
        return form.format(day=self.day(day, before), month=self.month(month), year=year_words)

    def month(self, number: int) -> str:
        """The name of a month, or its number."""
        return self.months[number - 1] if self.months else self.cardinal(number)

    def day(self, number: int, before: str = "") -> str:
        """The day of a month in words."""
        return self.first_day if self.first_day and number == 1 else self.cardinal(number)

    @cached_property
    def read_named_dates(self) -> Step:
        """Reads dates with the name of the month: 5 March 2024."""
        month_numbers = {name.casefold(): str(month) for month, name in enumerate(self.months, start=1)}
        pattern = re.compile(
            rf"(?<![\w.,])([0-9]{{1,2}}){self.day_mark}({alternatives(self.months)})(?!\w)" + self.year_mark,
            re.IGNORECASE,
        )

        def date_words(match: re.Match[str]) -> str:
            words = self.date_words_of(match, match[1], month_numbers[match[2].casefold()], match[3])
            return f"{words}{self.sentence_stop(match)}" if words else match[0]

        return lambda text: pattern.sub(date_words, text)


def _ends_sentence(match: re.Match[str]) -> bool:
    """Whether a sentence ends with the full stop of a month's name."""
    after = match.string[match.end() :].lstrip()
    return match[0].endswith(".") and (not after or after[0].isupper())
