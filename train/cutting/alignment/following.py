"""Which words of the manuscript were heard, and where: heard words against written ones.

An alignment in sections, each against the text behind the last word that was found, so that time
and memory do not grow with the length of a book. Text that is not spoken and speech that is not
written cost little each, so that what follows them is found again.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from train.cutting.alignment.recogniser import HeardWord

_MATCH, _OTHER = 1.0, -1.0
_UNWRITTEN, _UNSPOKEN, _AHEAD = -0.4, -0.1, -0.01
_SECTION_WORDS, _SETTLED_WORDS = 300, 200
_BEHIND_WORDS, _BEYOND_WORDS = 20, 500
# Below this share of a section the place in the text is lost, and looked for in all of it.
_LOST_SHARE, _FOUND_SHARE = 0.3, 0.5
# What the recogniser should expect: a word here or there may be wrong, a page may not.
EXPECTED_BEFORE, EXPECTED_AFTER = 300, 1500


@dataclass(frozen=True, slots=True)
class WordMatch:
    """A word of the manuscript (its number) and where in the order of heard words it was heard."""

    word: int
    heard: int


class TextFollower:
    """Told the heard words of recordings in their order; `matches` grows as they are settled."""

    def __init__(self, words: Sequence[str]) -> None:
        self._numbers: dict[str, int] = {}
        self._text = np.array([self._number(word) for word in words], np.int32)
        self._pending = list[int]()
        self._heard = 0
        self.position = 0
        self.lost = False
        self.matches = list[WordMatch]()

    def add(self, heard: Sequence[HeardWord]) -> None:
        """Further heard words."""
        self._pending += [self._number(one.text) for one in heard]
        while len(self._pending) >= _SECTION_WORDS:
            self._settle(_SETTLED_WORDS)

    def finish(self) -> None:
        """No further words come."""
        while self._pending:
            self._settle(len(self._pending))

    def _number(self, word: str) -> int:
        return self._numbers.setdefault(word, len(self._numbers))

    def _settle(self, count: int) -> None:
        heard = np.array(self._pending, np.int32)
        first = max(self.position - _BEHIND_WORDS, 0)
        last = self.position + 2 * len(heard) + _BEYOND_WORDS
        found = [(one, first + place) for one, place in matched(heard, self._text[first:last])]
        if len(found) < _LOST_SHARE * len(heard):
            everywhere = matched(heard, self._text)
            if len(everywhere) >= _FOUND_SHARE * len(heard):
                found = everywhere
        self.lost = len(found) < _LOST_SHARE * len(heard)
        settled = [] if self.lost else [pair for pair in found if pair[0] < count]
        self.matches += [WordMatch(place, self._heard + one) for one, place in settled]
        if settled:
            self.position = max(self.position, settled[-1][1] + 1)
        self._pending = self._pending[count:]
        self._heard += count


def matched(heard: np.ndarray, text: np.ndarray) -> list[tuple[int, int]]:
    """(heard, written) of equal words by the best alignment; text before and behind costs nearly
    nothing. Needleman and Wunsch (1970), a row a step."""
    width = len(text)
    steps = np.arange(width + 1) * -_UNSPOKEN
    row = np.arange(width + 1) * _AHEAD
    came = np.zeros((len(heard), width + 1), np.int8)  # 0 unwritten, 1 diagonal, 2 unspoken
    for place, word in enumerate(heard):
        down = row + _UNWRITTEN
        across = np.full(width + 1, -np.inf)
        across[1:] = row[:-1] + np.where(text == word, _MATCH, 2 * _UNWRITTEN + _OTHER)
        best = np.maximum(down, across)
        # Any number of text words skipped: a running maximum, as each costs the same.
        row = np.maximum.accumulate(best + steps) - steps
        came[place] = np.where(row > best + 1e-9, 2, np.where(across >= down, 1, 0))
    pairs, column = list[tuple[int, int]](), int(row.argmax())
    line = len(heard) - 1
    while line >= 0:
        step = came[line, column]
        if step == 2:
            column -= 1
            continue
        if step == 1:
            column -= 1
            if heard[line] == text[column]:
                pairs.append((line, column))
        line -= 1
    return pairs[::-1]
