"""Times of day in words: 14:30, 9-17:30, 18h30."""

import re
from dataclasses import dataclass
from typing import ClassVar

from xtts.text.normalization.numbers import NEVER, NumberRules, Pattern

_TIME = re.compile(r"(?<![\d:.,])([0-9]{1,2}):([0-5][0-9])(?::([0-9]{2}))?(?![\d:])(?:\s?h(?:rs?)?\b)?")
# The first hour of 9-17:30, which has no minutes: group 2 is empty.
_HOUR_BEFORE_DASH = re.compile(
    r"(?<![\w.,:/-])([0-9]{1,2})()\s?[–—-]\s?(?=[0-9]{1,2}:[0-5][0-9](?![\d:]))", re.ASCII
)


@dataclass(frozen=True)
class ClockTime:
    """A time of day.

    Attributes:
        minute: None if only the hour is written.
        before, after: The text around the time.
    """

    hour: int
    minute: int | None
    second: int | None = None
    before: str = ""
    after: str = ""

    @property
    def is_full_hour(self) -> bool:
        """Whether the time has no minutes or seconds."""
        return not self.minute and self.second is None


class ClockRules(NumberRules):
    """How a language reads times of day."""

    # The words around the numbers of a time.
    hour_form, minute_form, second_form = "{}", "{}", " {}"
    # The word between hour and minutes.
    minute_joiner = " "
    # The word before minutes of one digit.
    zero_minute = ""
    # The gender of the numbers of a time.
    hour_gender, minute_gender = "", ""
    # Three patterns with the hour in group 1 and the minutes in group 2:
    # a time in the notation of the language,
    clock: ClassVar[Pattern] = NEVER
    # the first time of a range,
    clock_range: ClassVar[Pattern] = _HOUR_BEFORE_DASH
    # and a time before a sign that marks it.
    clock_sign: ClassVar[Pattern] = NEVER
    # Words after which 8.30 is a time.
    clock_words = "(?!)"

    def mark_times(self, text: str) -> str:
        """Writes a colon in times that a word or a sign marks, and reads the first hour of a range:
        9-17:30."""
        text = self.clock_range.sub(self._range_start, text)
        text = self.clock_sign.sub(lambda m: f"{m[1]}:{m[2]}{self.sentence_stop(m)}", text)
        return re.sub(
            rf"(?<!\w)((?:{self.clock_words})\s)([0-9]{{1,2}})\.([0-5][0-9])"
            r"(?:(\s?[–—-]\s?)([0-9]{1,2})\.([0-5][0-9]))?(?![\d.,]\d|\d)",
            lambda m: f"{m[1]}{m[2]}:{m[3]}" + (f"{m[4]}{m[5]}:{m[6]}" if m[4] else ""),
            text,
        )

    def _range_start(self, match: re.Match[str]) -> str:
        hour, minutes = match.groups()
        time = f"{hour}:{minutes}" if minutes else self.cardinal(int(hour), self.hour_gender)
        return f"{time}{self.space}{self.to} "

    def read_times(self, text: str) -> str:
        """Reads times of day: 14:30, 14:30:05, and those of `clock`."""
        return _TIME.sub(lambda m: self._read_time(m, m[3]), self.clock.sub(self._read_time, text))

    def _read_time(self, match: re.Match[str], seconds: str | None = None) -> str:
        hour = int(match[1])
        minute, second = (int(figures) if figures else None for figures in (match[2], seconds))
        if hour > 24 or (minute or 0) > 59 or (second or 0) > 59:
            return match[0]
        before, after = match.string[: match.start()], match.string[match.end() :]
        return self.time(ClockTime(hour, minute, second, before, after))

    def time(self, clock_time: ClockTime) -> str:
        """A time of day in words."""
        words = self.hours(clock_time.hour)
        if not clock_time.is_full_hour:
            words += self.minute_joiner + self.minutes(clock_time.minute or 0)
        if clock_time.second is None:
            return words
        return words + self.second_form.format(self.cardinal(clock_time.second, self.minute_gender))

    def hours(self, hour: int) -> str:
        """The hour of a time in words."""
        return self.hour_form.format(self.cardinal(hour, self.hour_gender))

    def minutes(self, minute: int) -> str:
        """The minutes of a time in words."""
        zero = self.zero_minute if minute < 10 else ""
        return self.minute_form.format(zero + self.cardinal(minute, self.minute_gender))
