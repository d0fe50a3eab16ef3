"""Writes a chapter from its takes: the sound at ACX's loudness, and the word times."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from extras.books.speaking.narration import ChosenTake
from extras.books.speaking.take_folder import TakeFolder
from extras.books.writing.loudness import as_pcm, gain_of, limit
from machine.storage.files import replace_file, replacing
from xtts.encoding import Encoder, wav_header
from xtts.inference.alignment.guarded_piece import TimedWord
from xtts.marks import Mark
from xtts.model.shapes import VOCODER_RATE
from xtts.subtitles import render

# ACX requires half a second to one of silence before a chapter, and one to five after it.
BEFORE_SECONDS, AFTER_SECONDS = 0.75, 1.5
# The limit of a title in a file name, in bytes. With the endings of final and temporary files, the
# name stays within the 255 bytes that file systems allow.
MAX_TITLE_BYTES = 160


@dataclass(frozen=True)
class Span:
    """The times of a sentence in its chapter, in seconds."""

    chosen: ChosenTake
    start: float
    end: float


class BoundChapter:
    """A chapter whose sentences are all spoken. Chapters are numbered from 1."""

    def __init__(self, number: int, title: str, sentences: Sequence[ChosenTake], takes: TakeFolder) -> None:
        self.number, self.title, self.sentences = number, title, list(sentences)
        self._takes = takes
        self._pauses = [round(chosen.sentence.pause_seconds * VOCODER_RATE) for chosen in self.sentences]
        if self._pauses:
            self._pauses[-1] = round(AFTER_SECONDS * VOCODER_RATE)
        self._before = round(BEFORE_SECONDS * VOCODER_RATE)

    @property
    def mark(self) -> Mark:
        """The mark of its sound."""
        return self._takes.mark

    @property
    def num_samples(self) -> int:
        """The number of samples, including pauses."""
        spoken = sum(chosen.take.num_samples for chosen in self.sentences)
        return self._before + spoken + sum(self._pauses)

    @property
    def seconds(self) -> float:
        """The length in seconds."""
        return self.num_samples / VOCODER_RATE

    @property
    def fingerprint(self) -> str:
        """A hash of what the sound depends on: title, voice, takes and pauses."""
        parts = [
            f"{chosen.take.key} {pause}" for chosen, pause in zip(self.sentences, self._pauses, strict=True)
        ]
        return hashlib.sha256("\n".join([self.title, self.mark.voice, *parts]).encode()).hexdigest()

    def pcm(self) -> Iterator[bytes]:
        """The sound as 16-bit samples at 24,000 Hz, sentence by sentence."""
        gain = gain_of(self._sounds, self._before + sum(self._pauses))
        yield bytes(2 * self._before)
        for sound, pause in zip(self._sounds(), self._pauses, strict=True):
            yield as_pcm(limit(sound, gain)).tobytes()
            yield bytes(2 * pause)

    def _sounds(self) -> Iterator[np.ndarray]:
        return (self._takes.read_samples(chosen.take) for chosen in self.sentences)

    def spans(self) -> Iterator[Span]:
        """The times of the sentences."""
        position = self._before
        for chosen, pause in zip(self.sentences, self._pauses, strict=True):
            end = position + chosen.take.num_samples
            yield Span(chosen, position / VOCODER_RATE, end / VOCODER_RATE)
            position = end + pause

    def words(self) -> list[TimedWord]:
        """The words with their times; a sentence without word times is one entry."""
        words = list[TimedWord]()
        for span in self.spans():
            take = span.chosen.take
            times = take.words or [(take.text, 0.0, take.seconds)]
            words += [
                TimedWord(word, round(span.start + begin, 3), round(span.start + end, 3))
                for word, begin, end in times
            ]
        return words

    def write(self, path: Path, form: str) -> None:
        """Writes the sound as one of `xtts.encoding.MEDIA_TYPES`. Raises DiskFull, WriteError."""
        with replacing(path) as file:
            if form == "wav":
                file.write(wav_header(2 * self.num_samples, mark=self.mark))
                for part in self.pcm():
                    file.write(part)
                return
            encoder = Encoder(form, file, mark=self.mark)
            for part in self.pcm():
                encoder.add(part)
            encoder.end()

    def write_words(self, path: Path) -> None:
        """Writes the words as `.srt`, `.vtt` or `.json`. Raises DiskFull, WriteError."""
        text = " ".join(chosen.take.text for chosen in self.sentences)
        content = render(self.words(), path.suffix[1:], text).encode()
        replace_file(path, lambda file: file.write(content))


def file_stem(number: int, title: str) -> str:
    """The name of a chapter's files, `03 The Whale`, shortened for file systems."""
    plain = "".join(character if character.isalnum() or character in " -_'" else " " for character in title)
    short = " ".join(plain.split())[:60].encode()[:MAX_TITLE_BYTES].decode(errors="ignore")
    return f"{number:02} {short.strip()}".strip()
