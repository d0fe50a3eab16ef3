"""Narration: speaks the sentences of a book as takes, and chooses the best take of each.

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
from extras.books.speaking.book_voice import Ask, BookVoice, Said
from extras.books.speaking.reading_aloud import ReadSentence, read_sentence
from extras.books.speaking.sentences import Sentence, sentences_of
from extras.books.speaking.take_folder import Take, TakeFolder, key_of
from xtts.inference.alignment.guarded_piece import words_of_speech
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from xtts.evaluation.recogniser import Recogniser

# Far from the seeds of the guard and of users.
RETAKE_STRIDE = 1_000_000_007
_SEEDS = 2**63
# Sentences with a larger share of misheard words are spoken again. The recogniser makes errors too.
MOST_MISHEARD = 0.34


@dataclass(frozen=True)
class Settings:
    """The settings of a narration.

    Attributes:
        language: The language of the text.
        seed: The seed of the first takes.
        retakes: The most retakes of a sentence that ended badly or was misheard.
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
    """Counts the misheard words of a take. name: of the recogniser."""

    def __init__(self, name: str, recogniser: "Recogniser", tokenizer: Tokenizer, language: str) -> None:
        self.name = name
        self._recogniser, self._tokenizer, self._language = recogniser, tokenizer, language

    def errors(self, text: str, waveform: np.ndarray) -> int:
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
class Chosen:
    """The chosen take of a sentence. errors: misheard words; None without a recogniser."""

    sentence: Sentence
    take: Take
    errors: int | None = None

    @property
    def rank(self) -> tuple[int, int, int]:
        """The sort key of takes, ascending from the best to the worst."""
        return len(self.take.faults), self.errors or 0, len(self.take.left_out)


@dataclass
class _Line:
    """A sentence in progress. number: of its next take; read: its tokens, None until read."""

    chapter: int
    sentence: Sentence
    number: int = 0
    read: ReadSentence | None = None


class Narration:
    """Speaks chapters of a book into a folder of takes.

    Chapters are numbered from 1, counting those that are read aloud.
    """

    def __init__(
        self,
        book: Book,
        voice: BookVoice,
        takes: TakeFolder,
        settings: Settings,
        listener: Listener | None = None,
    ) -> None:
        self.book, self.voice, self.takes, self.settings = book, voice, takes, settings
        self.listener = listener
        self.tokenizer: Tokenizer = voice.voice.model.tokenizer
        # Counts this process only. The rate is measured from the start of `speak`.
        self.spoken_seconds = self._spoken_before = 0.0
        self.began = time.monotonic()

    def sentences(self, number: int) -> Iterator[Sentence]:
        """The sentences of a chapter."""
        chapter: Chapter = self.book.read_aloud[number - 1]
        return sentences_of(chapter, self.settings.language, footnotes=self.settings.footnotes)

    def key(self, sentence: Sentence, chapter: int, number: int, read: ReadSentence) -> str:
        """The name of a take of a sentence; number: 0 is the first take."""
        speaker = self.settings.speakers.get(chapter, "")
        others = {
            piece.voice: self.voice.speaker_identity(_full(piece.voice, speaker))
            for piece in read.pieces
            if piece.voice
        }
        return key_of(
            {
                "text": sentence.text,
                "pieces": [[p.ids, p.before, p.after, p.voice] for p in read.pieces],
                "speaker": self.voice.speaker_identity(speaker),
                "others": others,
                "language": self.settings.language,
                "seed": self._seed(number),
                "model": self.voice.model_identity,
            }
        )

    def _seed(self, number: int) -> int:
        return (self.settings.seed + RETAKE_STRIDE * number) % _SEEDS

    def chosen(self, sentence: Sentence, chapter: int) -> Chosen | None:
        """The best take of a sentence; None if a take must still be spoken, or if the sentence
        cannot be read."""
        read = self._read(sentence)
        return self._settle(_Line(chapter, sentence, read=read)) if read.pieces else None

    def _read(self, sentence: Sentence) -> ReadSentence:
        return read_sentence(self.tokenizer, sentence.text, self.settings.language)

    def _settle(self, line: _Line) -> Chosen | None:
        """As `chosen`. If it returns None, `line.number` is the next take to speak."""
        assert line.read is not None
        takes: list[Chosen] = []
        rejected, number = 0, 0
        while number - rejected <= self.settings.retakes:
            key = self.key(line.sentence, line.chapter, number, line.read)
            if key in self.settings.rejected:
                rejected += 1
            elif (chosen := self._stored_choice(line.sentence, key)) is None:
                line.number = number
                return None
            else:
                takes.append(chosen)
                if self._good(chosen):
                    break
            number += 1
        # The first of the best.
        return min(takes, key=lambda chosen: chosen.rank)

    def _stored_choice(self, sentence: Sentence, key: str) -> Chosen | None:
        take = self.takes.find(key)
        if take is None:
            return None
        if self.listener is None or not self.settings.retakes:
            return Chosen(sentence, take)
        errors = self.takes.heard(key, self.listener.name)
        if errors is None:
            sound = self.takes.samples(take).astype(np.float32) / 32768.0
            errors = self.listener.errors(sentence.text, sound)
            self.takes.keep_heard(key, self.listener.name, errors)
        return Chosen(sentence, take, errors)

    def _good(self, chosen: Chosen) -> bool:
        words = max(1, len(chosen.take.text.split()))
        return not chosen.take.faults and (chosen.errors or 0) <= MOST_MISHEARD * words

    def speak(
        self, lines: Iterator[tuple[int, Sentence]], settled: Callable[[int, Sentence, Chosen | None], None]
    ) -> None:
        """Speaks (chapter, sentence) pairs and calls `settled` with the chosen take of each, or
        with None if it cannot be read.

        Raises DiskFull, WriteError, NotFinite, and TextError for an unknown speaker.
        """
        again: deque[_Line] = deque()
        waiting: dict[str, list[_Line]] = {}
        lines_by_key: dict[str, _Line] = {}
        self.began, self._spoken_before = time.monotonic(), self.spoken_seconds

        def next_ask() -> Ask | None:
            while (line := again.popleft() if again else _line(next(lines, None))) is not None:
                if line.read is None:
                    line.read = self._read(line.sentence)
                chosen = self._settle(line) if line.read.pieces else None
                if chosen is not None or not line.read.pieces:
                    settled(line.chapter, line.sentence, chosen)
                    continue
                ask = self._ask(line)
                if ask.key in lines_by_key:  # the same sentence is being spoken
                    waiting.setdefault(ask.key, []).append(line)
                    continue
                lines_by_key[ask.key] = line
                return ask
            return None

        for speech in self.voice.say(next_ask):
            line = lines_by_key.pop(speech.ask.key)
            self._keep(line, speech)
            again.extend([line, *waiting.pop(speech.ask.key, [])])
            while again:  # sentences that are settled now do not need a slot
                line = again[0]
                assert line.read is not None
                if (chosen := self._settle(line)) is None:
                    break
                again.popleft()
                settled(line.chapter, line.sentence, chosen)

    def _ask(self, line: _Line) -> Ask:
        assert line.read is not None
        request = SynthesisRequest(
            line.sentence.text, self.settings.language, self._seed(line.number), pieces=line.read.pieces
        )
        key = self.key(line.sentence, line.chapter, line.number, line.read)
        return Ask(key, request, self.settings.speakers.get(line.chapter, ""))

    def _keep(self, line: _Line, speech: Said) -> None:
        assert line.read is not None
        words = words_of_speech(line.read.pieces, speech.pieces) if speech.pieces else None
        faults = [
            f"{piece.ending.value}: {piece.reason}" if piece.reason else piece.ending.value
            for piece in speech.pieces
            if piece.faulty
        ]
        take = Take(
            speech.ask.key,
            line.sentence.text,
            len(speech.waveform),
            None if words is None else [(w.word, w.start_time, w.end_time) for w in words],
            faults,
            max((piece.attempts for piece in speech.pieces), default=1),
            line.read.left_out,
        )
        self.takes.keep(take, speech.waveform)
        self.spoken_seconds += take.seconds

    @property
    def rate(self) -> float:
        """Seconds of speech per second since `speak` began; 0 before the first sentence."""
        spoken = self.spoken_seconds - self._spoken_before
        return spoken / max(1e-6, time.monotonic() - self.began)


def _line(pair: tuple[int, Sentence] | None) -> _Line | None:
    return None if pair is None else _Line(*pair)


def _full(named: str, speaker: str) -> str:
    from xtts.text.markup import of_request

    return of_request(named, speaker)
