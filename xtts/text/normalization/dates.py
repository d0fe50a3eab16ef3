"""Dates and times of day in words: 2024-03-05, 5/3/2024, 5 March 2024, 3-5 May; 14:30, 9-17:30, 18h30."""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from xtts.text.normalization.numbers import NEVER, NumberRules, Pattern, Step, alternatives


class DateRules(NumberRules):
    """How a language reads dates."""

    months: ClassVar[tuple[str, ...]] = ()
    # A date without its year, and with it; the first of a month if that is an ordinal; marks after
    # a day and a year beside the name of a month.
    date_forms, first_day = ("{day} {month}", "{day} {month} {year}"), ""
    day_mark = r"(?:\.|º|°|er|st|nd|rd|th)?\s(?:de\s|of\s)?"
    year_mark = r"(?:(?:\sde|\sdel|,)?\s([0-9]{4})(?![\w.,]?\d))?"
    # The order of day and month in numeric dates.
    month_first = False
    # Words after which 3/5 is a day and a month.
    date_words = "(?!)"

    @cached_property
    def read_short_months(self) -> Step:
        """Writes short names of months in full: 5 Jan 2024."""
        names, unsure = self._short_months
        if not names:
            return lambda text: text
        short = "|".join(sorted(names, key=len, reverse=True))
        first = "(?=[A-ZÀ-Þ])" if self.code in ("en", "de") else ""
        ordinal = r"(?:\.|º|°|er|st|nd|rd|th)?"
        # After the day, and after the month's name: a year, or the day of English and Hungarian.
        after_day = re.compile(
            rf"(?<![\w.,:/])([0-9]{{1,2}}{ordinal})(\s(?:de\s|of\s)?|-|/|\.)(?-i:{first})({short})"
            rf"(?![^\W\d_])(\.?)(?:(\s(?:de\s)?|-|/|,\s)(?=[12][0-9]{{3}}(?!\w)))?",
            re.IGNORECASE,
        )
        then = r"[12][0-9]{3}(?![\w.,]?\d)"
        if self.code in ("en", "hu"):
            then += r"|[0-9]{1,2}(?:st|nd|rd|th|\.|-)?(?![\w:%])"
        before = re.compile(rf"(?<!\w)(?-i:{first})({short})(\.?)(?=\s(?:{then}))", re.IGNORECASE)

        def with_day(match: re.Match[str]) -> str:
            day, joiner, name, dot, year = match.groups()
            short_name = name.casefold()
            if short_name in unsure and not (dot or year or joiner in "-/" or len(joiner) > 2):
                return match[0]
            joiner = joiner if joiner.startswith(" ") else " "
            end = "." if _ends_sentence(match) else ""
            if year:
                end = year if year.startswith(" ") or year == ", " else " "
            return f"{day}{joiner}{names[short_name]}{end}"

        def alone(match: re.Match[str]) -> str:
            name = match[1].casefold()
            return match[0] if name in unsure and not match[2] else names[name]

        def step(text: str) -> str:
            return before.sub(alone, after_day.sub(with_day, text))

        return step

    @property
    def _short_months(self) -> tuple[dict[str, str], set[str]]:
        """The months by their short names, and those of these names that are also words or
        numbers."""
        names, unsure = dict[str, str](), set[str]()
        short_names = _SHORT_MONTHS.get(self.code, "").split()
        for month, forms in zip(self.months, short_names, strict=False):
            for form in forms.split("/"):
                short = form.rstrip("*").casefold()
                if short != "-" and short != month.casefold():
                    names[short] = month
                    unsure |= {short} if form.endswith("*") else set()
        return names, unsure

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
        year_words = "" if year is None else self.year(year)
        return self.date_forms[year is not None].format(
            day=self.day(day, before), month=self.month(month), year=year_words
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
        month_numbers = {name.casefold(): str(month) for month, name in enumerate(self.months, start=1)}
        pattern = re.compile(
            rf"(?<![\w.,])([0-9]{{1,2}}){self.day_mark}({alternatives(self.months)})(?!\w)" + self.year_mark,
            re.IGNORECASE,
        )
        return lambda text: pattern.sub(
            lambda m: (
                f"{words}{self.stop(m)}"
                if (words := self.dated(m, m[1], month_numbers[m[2].casefold()], m[3]))
                else m[0]
            ),
            text,
        )


_ISO_DATE = re.compile(r"(?<![\w.-])([12][0-9]{3})[-/]([0-9]{1,2})[-/]([0-9]{1,2})(?![\d-])", re.ASCII)
_FIGURES_DATE = re.compile(
    r"(?<![\w.,/-])([0-9]{1,2})(?:([/-])|\.\s?)([0-9]{1,2})(?(2)[/-]|\.\s?)([12][0-9]{3})(?![\d/-])", re.ASCII
)
# A month's short names are separated by `/`; `-` has none. With `*` they are also words or numbers
# ("set", "mar", "dez"), so that only a full stop, a year or a dash makes them months.
_SHORT_MONTHS = {
    "en": "Jan Feb Mar Apr - Jun Jul Aug Sep/Sept Oct Nov Dec",
    "de": "Jan/Jän Feb/Febr Mär/Mrz Apr - Jun Jul Aug Sep/Sept Okt Nov Dez",
    "nl": "jan feb/febr mrt/maa* apr - jun jul aug sep/sept okt nov dec",
    "fr": "janv/jan fév/févr mars* avr - juin* juil/juill août* sept* oct nov déc",
    "es": "ene feb/febr mar* abr may jun jul ago*/agto sep/sept/set* oct nov dic",
    "pt": "jan fev mar* abr mai* jun jul ago* set* out* nov dez*",
    "it": "gen/genn feb/febbr mar* apr mag/magg giu lug/lugl ago* set*/sett ott nov dic",
    "pl": "sty/stycz lut mar* kwi/kwiec - cze/czerw lip sie*/sierp wrz/wrześ paź/paźdz lis*/listop gru/grudz",
    "cs": "led* úno bře dub* kvě čvn čvc srp zář říj lis* pro*",
    "ru": "янв фев/февр мар* апр - июн июл авг сен*/сент окт ноя/нояб дек",
    "hu": "jan feb/febr márc ápr máj jún júl aug szept/szep okt nov dec",
    "tr": "Oca* Şub Mar* Nis May* Haz Tem Ağu Eyl Eki Kas* Ara*",
    "hi": "जन फ़र/फर - अप्रै - - जुल अग* सित अक्टू नव* दिस",
}


def _ends_sentence(match: re.Match[str]) -> bool:
    """Whether a sentence ends with the full stop of a month's name."""
    after = match.string[match.end() :].lstrip()
    return match[0].endswith(".") and (not after or after[0].isupper())


# --- Times of day

_HOURS_TO = re.compile(r"(?<![\w.,:/-])([0-9]{1,2})()\s?[–—-]\s?(?=[0-9]{1,2}:[0-5][0-9](?![\d:]))", re.ASCII)


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


class ClockRules(NumberRules):
    """How a language reads times of day."""

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

    def read_times(self, text: str) -> str:
        """Reads times of day: 14:30, 14:30:05, and those of `clock`."""
        return _TIME.sub(self._timed, self.clock.sub(self._timed, text))

    def _timed(self, match: re.Match[str]) -> str:
        hour, minute, second = (int(figures) if figures else None for figures in (*match.groups(), "")[:3])
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


_TIME = re.compile(r"(?<![\d:.,])([0-9]{1,2}):([0-5][0-9])(?::([0-9]{2}))?(?![\d:])(?:\s?h(?:rs?)?\b)?")
