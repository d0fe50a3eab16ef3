"""Chapters of hums: one for each word, at known times."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from extras.books.speaking.narration import ChosenTake
from extras.books.speaking.sentences import Sentence
from extras.books.speaking.take_folder import Take, TakeFolder
from extras.books.writing.binding import BoundChapter

RATE = 24_000
# The length of a word, and the time from one word to the next.
HUM_SECONDS, STEP_SECONDS = 0.15, 0.4


def bound(folder: Path, number: int, title: str, said: Sequence[Sentence]) -> BoundChapter:
    """A chapter with a hum of 0.15 s for each word."""
    takes, chosen = TakeFolder(folder), []
    for place, sentence in enumerate(said):
        names = sentence.text.split()
        words = [
            (word, 0.05 + STEP_SECONDS * at, 0.05 + STEP_SECONDS * at + HUM_SECONDS)
            for at, word in enumerate(names)
        ]
        sound = np.zeros(round(RATE * (STEP_SECONDS * len(names) + 0.1)), np.float32)
        for _, begin, end in words:
            span = slice(round(RATE * begin), round(RATE * end))
            sound[span] = 0.1 * np.sin(np.arange(span.stop - span.start) * 2 * np.pi * 200 / RATE)
        take = Take(f"{number}{place}".ljust(40, "0"), sentence.text, len(sound), words)
        takes.store(take, sound)
        chosen.append(ChosenTake(sentence, take))
    return BoundChapter(number, title, chosen, takes)
