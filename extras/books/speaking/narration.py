"""Narration speaks the sentences of a book as takes, and chooses the best take of each.

The name of a take is the hash of everything that its sound depends on. So a sentence is spoken only
once, even after a kill, unless its text, pronunciation, voice or settings change. A take that ended
badly, or that a recogniser misheard, is followed by one with the next seed.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from extras.books.book import Book, Chapter
from extras.books.speaking.book_voice import BookVoice, SentenceRequest, SpokenSentence
from extras.books.speaking.reading_aloud import ReadSentence, read_sentence
from extras.books.speaking.sentences import Sentence, sentences_of
from extras.books.speaking.take_folder import Take, TakeFolder, key_of
from xtts.inference.alignment.guarded_piece import words_of_speech
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.text.markup import full_voice_name
from xtts.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from xtts.evaluation.recogniser import Recogniser

# Far from the seeds of the guard and of users.
RETAKE_STRIDE = 1_000_000_007
_SEEDS = 2**63
# Sentences with a larger share of misheard words are spoken again. The recogniser makes errors too.
MAX_MISHEARD = 0.34


@dataclass(frozen=True)
class NarrationSettings:
    """The settings of a narration.

    Attributes:
        language: The language of the text.
        seed: The seed of the first takes.
        retakes: The maximum number of retakes of a sentence that ended badly or was misheard.
        speakers: Speakers by chapter number; "" or missing is the default.
        footnotes: Whether footnotes are spoken, at their positions in the file.
        rejected: Takes that a person has rejected; the next ones replace them.
    """

    language: str
    seed: int = 0
    retakes: int = 0
    speakers: Mapping[int, str] = field(default_factory=dict)
    footnotes: bool = False
    rejected: frozenset[str] = frozenset()


class Listener:
    """Counts the misheard words of a take.

    Attributes:
        name: The name of the recogniser.
    """

    def __init__(self, name: str, recogniser: "Recogniser", tokenizer: Tokenizer, language: str) -> None:
        self.name = name
        self._recogniser, self._tokenizer, self._language = recogniser, tokenizer, language

    def count_misheard_words(self, text: str, waveform: np.ndarray) -> int:
        """The number of misheard words in a waveform `[samples]` at 24,000 Hz."""
        import torch

        from xtts import audio
        from xtts.evaluation import recogniser

        sound = audio.resample(
            torch.from_numpy(np.asarray(waveform, np.float32)), audio.VOCODER_RATE, recogniser.RATE
        )
        heard = self._recogniser.hear(sound.numpy())
        expected = recogniser.words_of(self._tokenizer, text, self._language)
        words = recogniser.heard_words(self._tokenizer, heard, self._language)
        return recogniser.num_errors(expected, words)


@dataclass(frozen=True)
class ChosenTake:
    """The chosen take of a sentence, and its misheard words; None without a recogniser."""

    sentence: Sentence
    take: Take
    misheard_words: int | None = None

    @property
    def rank(self) -> tuple[int, int, int]:
        """The sort key of takes, ascending from the best to the worst."""
        return len(self.take.faults), self.misheard_words or 0, len(self.take.left_out)


@dataclass
class _Line:
    """A sentence in progress, with its chapter and the number of its next take."""

    chapter_number: int
    sentence: Sentence
    read: ReadSentence
    take_number: int = 0


class Narration:
    """Speaks chapters of a book into a folder of takes.

    Chapters are numbered from 1, counting those that are read aloud.
    """

    def __init__(
        self,
        book: Book,
        voice: BookVoice,
        takes: TakeFolder,
        settings: NarrationSettings,
        listener: Listener | None = None,
    ) -> None:
        self.book, self.voice, self.takes, self.settings = book, voice, takes, settings
        self.listener = listener
        self.tokenizer: Tokenizer = voice.voice.model.tokenizer
        # Counts this process only. The rate is measured from the start of `speak`.
        self.spoken_seconds = self._spoken_before = 0.0
        self.began = time.monotonic()

    def sentences(self, chapter_number: int) -> Iterator[Sentence]:
        """The sentences of a chapter."""
        chapter: Chapter = self.book.read_aloud[chapter_number - 1]
        return sentences_of(chapter, self.settings.language, footnotes=self.settings.footnotes)

    def speak(
        self,
        sentences: Iterator[tuple[int, Sentence]],
        report: Callable[[int, Sentence, ChosenTake | None], None],
    ) -> None:
        """Speaks (chapter number, sentence) pairs and calls `report` with the chosen take of each,
        or with None if it cannot be read.

        Raises DiskFull, WriteError, NotFinite, and TextError for an unknown speaker.
        """
        self.began, self._spoken_before = time.monotonic(), self.spoken_seconds
        queue = _Queue(self, sentences, report)
        for spoken in self.voice.speak(queue.next_request):
            queue.finish(spoken)

    def chosen(self, sentence: Sentence, chapter_number: int) -> ChosenTake | None:
        """The best take of a sentence; None if a take must still be spoken, or if the sentence
        cannot be read."""
        line = self.new_line(chapter_number, sentence)
        return self.choose_take(line) if line.read.pieces else None

    def new_line(self, chapter_number: int, sentence: Sentence) -> _Line:
        """Reads a sentence."""
        read = read_sentence(self.tokenizer, sentence.text, self.settings.language)
        return _Line(chapter_number, sentence, read)

    def choose_take(self, line: _Line) -> ChosenTake | None:
        """The best take; None if another must be spoken first, whose number is then
        `line.take_number`."""
        takes: list[ChosenTake] = []
        num_rejected = take_number = 0
        while take_number - num_rejected <= self.settings.retakes:
            key = self._key(line, take_number)
            if key in self.settings.rejected:
                num_rejected += 1
            elif (chosen := self._stored_take(line.sentence, key)) is None:
                line.take_number = take_number
                return None
            else:
                takes.append(chosen)
                if _is_acceptable(chosen):
                    break
            take_number += 1
        # The first of the best.
        return min(takes, key=lambda chosen: chosen.rank)

    def request_for(self, line: _Line) -> SentenceRequest:
        """The request for the next take of a line."""
        synthesis = SynthesisRequest(
            line.sentence.text, self.settings.language, self._seed(line.take_number), pieces=line.read.pieces
        )
        key = self._key(line, line.take_number)
        return SentenceRequest(key, synthesis, self._speaker(line))

    def store_take(self, line: _Line, spoken: SpokenSentence) -> None:
        """Writes a take. Raises DiskFull, WriteError."""
        words = words_of_speech(line.read.pieces, spoken.pieces) if spoken.pieces else None
        faults = [
            f"{piece.ending.value}: {piece.reason}" if piece.reason else piece.ending.value
            for piece in spoken.pieces
            if piece.faulty
        ]
        take = Take(
            spoken.request.key,
            line.sentence.text,
            len(spoken.waveform),
            None if words is None else [(word.word, word.start_time, word.end_time) for word in words],
            faults,
            max((piece.attempts for piece in spoken.pieces), default=1),
            line.read.left_out,
        )
        self.takes.store(take, spoken.waveform)
        self.spoken_seconds += take.seconds

    def _key(self, line: _Line, take_number: int) -> str:
        speaker = self._speaker(line)
        further_speakers = {
            piece.voice: self.voice.speaker_identity(full_voice_name(piece.voice, speaker))
            for piece in line.read.pieces
            if piece.voice
        }
        return key_of(
            {
                "text": line.sentence.text,
                "pieces": [[piece.ids, piece.before, piece.after, piece.voice] for piece in line.read.pieces],
                "speaker": self.voice.speaker_identity(speaker),
                "others": further_speakers,
                "language": self.settings.language,
                "seed": self._seed(take_number),
                "model": self.voice.model_identity,
            }
        )

    def _speaker(self, line: _Line) -> str:
        return self.settings.speakers.get(line.chapter_number, "")

    def _seed(self, take_number: int) -> int:
        return (self.settings.seed + RETAKE_STRIDE * take_number) % _SEEDS

    def _stored_take(self, sentence: Sentence, key: str) -> ChosenTake | None:
        take = self.takes.find(key)
        if take is None:
            return None
        if self.listener is None or not self.settings.retakes:
            return ChosenTake(sentence, take)
        count = self.takes.misheard_words(key, self.listener.name)
        if count is None:
            waveform = self.takes.read_samples(take).astype(np.float32) / 32768.0
            count = self.listener.count_misheard_words(sentence.text, waveform)
            self.takes.store_misheard_words(key, self.listener.name, count)
        return ChosenTake(sentence, take, count)

    @property
    def rate(self) -> float:
        """Seconds of speech per second since `speak` began; 0 before the first sentence."""
        spoken = self.spoken_seconds - self._spoken_before
        return spoken / max(1e-6, time.monotonic() - self.began)


class _Queue:
    """The sentences of one `Narration.speak`: new ones, those being spoken, and retakes."""

    def __init__(
        self,
        narration: Narration,
        sentences: Iterator[tuple[int, Sentence]],
        report: Callable[[int, Sentence, ChosenTake | None], None],
    ) -> None:
        self._narration, self._sentences, self._report = narration, sentences, report
        self._retakes: deque[_Line] = deque()
        # By the key of the take: the line that is being spoken, and further lines with the same text.
        self._in_progress: dict[str, list[_Line]] = {}

    def next_request(self) -> SentenceRequest | None:
        """The next take to speak; None if there is none for now."""
        while (line := self._next_line()) is not None:
            if self._settle(line):
                continue
            request = self._narration.request_for(line)
            if request.key not in self._in_progress:
                self._in_progress[request.key] = [line]
                return request
            self._in_progress[request.key].append(line)
        return None

    def finish(self, spoken: SpokenSentence) -> None:
        """Stores a take, and reports the lines that need no other take."""
        lines = self._in_progress.pop(spoken.request.key)
        self._narration.store_take(lines[0], spoken)
        self._retakes.extend(lines)
        while self._retakes and self._settle(self._retakes[0]):
            self._retakes.popleft()

    def _next_line(self) -> _Line | None:
        if self._retakes:
            return self._retakes.popleft()
        pair = next(self._sentences, None)
        return None if pair is None else self._narration.new_line(*pair)

    def _settle(self, line: _Line) -> bool:
        """Reports a line and returns True, unless another take must be spoken first."""
        chosen = self._narration.choose_take(line) if line.read.pieces else None
        if chosen is None and line.read.pieces:
            return False
        self._report(line.chapter_number, line.sentence, chosen)
        return True


def _is_acceptable(chosen: ChosenTake) -> bool:
    num_words = max(1, len(chosen.take.text.split()))
    return not chosen.take.faults and (chosen.misheard_words or 0) <= MAX_MISHEARD * num_words
