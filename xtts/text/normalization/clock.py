"""Times of day in words: 14:30, 9-17:30, 14.30 Uhr, 18h30."""

import re
from dataclasses import dataclass
from typing import ClassVar

from xtts.text.normalization.numbers import NEVER, NumberRules, Pattern

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
