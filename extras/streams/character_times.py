"""The times of characters, which ElevenLabs' clients take, from the times of words."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

Words = Sequence[tuple[str, float, float]]
# The signs after a word, the space and anything else up to the next word, and the signs before it.
_BETWEEN = re.compile(r"(\S*)(\s.*\s|\s)(\S*)", re.DOTALL)


@dataclass(frozen=True)
class Alignment:
    """Characters in the order of the text, each with its start and its duration in milliseconds."""

    characters: Sequence[str]
    starts: Sequence[int]
    durations: Sequence[int]

    def after(self, milliseconds: int) -> "Alignment":
        """The same characters, later."""
        return Alignment(self.characters, [start + milliseconds for start in self.starts], self.durations)

    def as_message(self) -> dict[str, object]:
        """As ElevenLabs writes it."""
        return {"chars": self.characters, "charStartTimesMs": self.starts, "charDurationsMs": self.durations}


@dataclass
class CharacterTimes:
    """The characters of one spoken part, which become known word by word.

    text: the part. covered: the milliseconds of sound that are aligned so far.
    """

    text: str
    covered: int = 0
    _place: int = 0
    _timed: list[tuple[str, int, int]] = field(default_factory=list)

    def add(self, words: Words) -> Alignment | None:
        """The characters up to the last of these words, with times from the start of the part; None
        without words. The characters of a word share its time equally."""
        for word, start, end in words:
            place = self.text.find(word, self._place)
            if place >= 0:
                self._between(self.text[self._place : place], start)
                self._spread(word, end)
                self._place = place + len(word)
        return self._taken()

    def end(self, seconds: float) -> Alignment | None:
        """The characters after the last word, and a space, until the end of the sound. None if no
        word had a time."""
        if self._place:
            self._between(f"{self.text[self._place :]} ", seconds)
        return self._taken()

    def _between(self, signs: str, until: float) -> None:
        """The characters between two words. The spaces take the time, and other signs none: they
        belong to their word. In "well-known" and in Chinese, the signs take it."""
        if not self._place:
            self._spread("", until)
        if not (match := _BETWEEN.fullmatch(signs)):
            self._spread(signs, until)
            return
        self._spread_each(match[1])
        self._spread(match[2], until)
        self._spread_each(match[3])

    def _spread_each(self, signs: str) -> None:
        for sign in signs:
            self._spread(sign, 0.0)

    def _spread(self, characters: str, until: float) -> None:
        """Adds characters that take the time from the last one until this second."""
        begin, end = self.covered, max(self.covered, round(1000 * until))
        count = len(characters)
        places = [begin + (end - begin) * number // count for number in range(count + 1)] if count else []
        self._timed += [
            (sign, start, stop - start)
            for sign, (start, stop) in zip(characters, pairwise(places), strict=True)
        ]
        self.covered = end

    def _taken(self) -> Alignment | None:
        timed, self._timed = self._timed, []
        return Alignment(*map(list, zip(*timed, strict=True))) if timed else None
