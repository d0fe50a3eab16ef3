"""The times of the written words of a text."""

from collections.abc import Sequence
from dataclasses import dataclass

from xtts.inference.alignment.guarded_piece import SpokenPiece
from xtts.text.tokenizer import Piece


@dataclass(frozen=True)
class TimedWord:
    """A word with its times in seconds from the start of the speech. The field names are those of
    Kokoro-FastAPI's captioned speech."""

    word: str
    start_time: float
    end_time: float


class SpokenWords:
    """The words of one speech, available piece by piece.

    Every word has a time, in the order of the text, and none starts before the previous one ends. A
    word that spans two pieces is returned with the second.
    """

    def __init__(self, pieces: Sequence[Piece], speed: float = 1.0) -> None:
        """speed: the speed of the speech."""
        self._pieces = tuple(pieces)
        self._speed = speed
        self._number = 0
        self._began = self._seconds = self._last = 0.0
        self._held: TimedWord | None = None
        # False as soon as a piece lacks a path through attention.
        self.known = True

    def sounded(self, seconds: float) -> None:
        """Adds the length of more sound, including pauses."""
        self._seconds += seconds

    def ended(self, spoken: SpokenPiece) -> list[TimedWord]:
        """The words of the next piece, whose sound is complete; [] if their times are unknown."""
        piece, self._number = self._pieces[self._number], self._number + 1
        began, self._began = self._began + piece.before, self._seconds
        if spoken.times is None:
            self.known = False
        if not self.known or spoken.times is None:
            return []
        words = [self._held] if self._held else []
        # A word that was not reached or was cut off ends with the sound.
        over = max(began, self._seconds - piece.after)
        for word in piece.words:
            start = min(began + float(spoken.times[word.first, 0]) / self._speed, over)
            end = min(began + float(spoken.times[word.last, 1]) / self._speed, over)
            start = max(start, self._last)
            self._last = end = max(start, end)
            if word.text or not words:
                words.append(TimedWord(word.text, round(start, 3), round(end, 3)))
            else:
                words[-1] = TimedWord(words[-1].word, words[-1].start_time, round(end, 3))
        self._held = words.pop() if words and self._continues else None
        return words

    @property
    def _continues(self) -> bool:
        """Whether the next piece starts within a word."""
        rest = self._pieces[self._number :]
        return bool(rest and rest[0].words and not rest[0].words[0].text)


def words_of_speech(
    pieces: Sequence[Piece], spoken: Sequence[SpokenPiece], speed: float = 1.0
) -> list[TimedWord] | None:
    """The words of a finished speech; None if their times are unknown.

    Args:
        pieces: The pieces of the text (`xtts.text.tokenizer.Tokenizer.split`).
        spoken: The result of each piece.
        speed: The speed of the speech.
    """
    words, timed = SpokenWords(pieces, speed), list[TimedWord]()
    for piece, one in zip(pieces, spoken, strict=True):
        words.sounded(piece.before + one.seconds + piece.after)
        timed += words.ended(one)
    return timed if words.known and spoken else None
