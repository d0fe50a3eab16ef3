"""The times of characters, which ElevenLabs' clients take, from the times of words."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

# (word, start, end) in seconds.
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
    """The times of the characters of one spoken part, computed word by word.

    Attributes:
        text: The part.
        aligned_ms: The sound that is aligned so far.
    """

    text: str
    aligned_ms: int = 0
    _position: int = 0
    # (character, start, duration), to be returned next.
    _new_times: list[tuple[str, int, int]] = field(default_factory=list)

    def add(self, words: Words) -> Alignment | None:
        """The characters up to the last of these words, with times from the start of the part; None
        without words. The characters of a word share its time equally."""
        for word, start, end in words:
            position = self.text.find(word, self._position)
            if position >= 0:
                self._add_between_words(self.text[self._position : position], start)
                self._spread(word, end)
                self._position = position + len(word)
        return self._take_alignment()

    def end(self, seconds: float) -> Alignment | None:
        """The characters after the last word, and a space, until the end of the sound. None if no
        word had a time."""
        if self._position:
            self._add_between_words(f"{self.text[self._position :]} ", seconds)
        return self._take_alignment()

    def _add_between_words(self, signs: str, until: float) -> None:
        """Adds the characters between two words. The spaces take the time, and other signs none: they
        belong to their word. Without a space ("well-known", Chinese), the signs take the time."""
        if not self._position:
            self._spread("", until)
        if not (match := _BETWEEN.fullmatch(signs)):
            self._spread(signs, until)
            return
        self._add_without_duration(match[1])
        self._spread(match[2], until)
        self._add_without_duration(match[3])

    def _add_without_duration(self, signs: str) -> None:
        for sign in signs:
            self._spread(sign, 0.0)

    def _spread(self, characters: str, until: float) -> None:
        """Adds characters that share the time from the last one until this second."""
        begin, end = self.aligned_ms, max(self.aligned_ms, round(1000 * until))
        count = len(characters)
        edges = [begin + (end - begin) * number // count for number in range(count + 1)] if count else []
        self._new_times += [
            (character, start, stop - start)
            for character, (start, stop) in zip(characters, pairwise(edges), strict=True)
        ]
        self.aligned_ms = end

    def _take_alignment(self) -> Alignment | None:
        new_times, self._new_times = self._new_times, []
        return Alignment(*map(list, zip(*new_times, strict=True))) if new_times else None
