"""Cuts with an English text, word by word, aligned by pocketsphinx."""

import functools
import itertools
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch

from extras.common.steps import Steps
from extras.cut.cutter import CutJob, CutRecording, CutResult, clipping_warning, cut_recording
from extras.cut.journal import RecognitionJournal
from extras.cut.manuscript import Manuscript
from extras.cut.profile import SoundProfile, SpokenChunk, listen
from extras.cut.recogniser import HeardWord, aligned_words, heard_words, text_recogniser
from extras.cut.recordings import LISTENING_RATE, CuttingError, SourceRecording, check_unchanged, read_spans
from extras.cut.speech_detection import find_detector
from extras.cut.word_alignment import (
    EXPECTED_AFTER,
    EXPECTED_BEFORE,
    MIN_CERTAINTY,
    DoubtfulSentence,
    TextFollower,
    doubtful_sentences,
    place_units,
    trusted_matches,
)
from train.concurrency import lookahead
from train.progress import with_progress
from xtts.audio import resample

# The expected words move on in steps, because a language model takes 0.1 s to build.
_EXPECTED_STEP_WORDS = 600
# If a smaller share of the words matches, it is the text of another recording.
_MIN_MATCHED_SHARE = 0.2
_MIN_RECOGNISED_WORDS = 5
# Shorter sentences are recognised by chance in any recording.
_MIN_SENTENCE_WORDS = 4

# Waits for the words that are being recognised.
_WaitForWords = Callable[[], list[HeardWord]]


class _StartedChunk(NamedTuple):
    """A chunk whose recognition has started.

    Attributes:
        key: Its key in the journal.
        expected: The words of the text that the language model expects, by their numbers.
    """

    key: str
    chunk: SpokenChunk
    expected: range
    wait: _WaitForWords


class TextListener:
    """Recognises chunk after chunk, with a language model of the text that is expected next.

    Recognition of later chunks starts before earlier ones are done, with the words expected by
    then. If an earlier chunk changes the expected words, the later chunks are recognised again, so
    that the result is the same as from one chunk at a time.

    Args:
        journal: The words that were recognised before this process started.
    """

    def __init__(self, text: Manuscript, journal: RecognitionJournal, steps: Steps) -> None:
        text_recogniser()  # raises if it is not installed
        self._text = text
        self._journal = journal
        self._steps = steps
        self._started_chunks = deque[_StartedChunk]()
        self.follower = TextFollower(text.words)
        self.heard = list[HeardWord]()
        self._expected = range(min(EXPECTED_AFTER, len(text.words)))

    def hear(self, recording: SourceRecording, chunk: SpokenChunk) -> None:
        """Starts to recognise a chunk, unless the journal has its result."""
        key = f"{recording.name}|{chunk.start:.3f}|{len(chunk.samples)}"
        self._started_chunks.append(_StartedChunk(key, chunk, self._expected, self._start(key, chunk)))
        if len(self._started_chunks) > self._steps.ahead:
            self._finish_oldest()

    def finish(self) -> None:
        """Waits for the chunks that were started; `heard` then holds all results."""
        while self._started_chunks:
            self._finish_oldest()

    def check(
        self, recording: SourceRecording, sentence: DoubtfulSentence, samples: np.ndarray
    ) -> _WaitForWords:
        """Starts to align the words of a doubtful sentence with the [samples]. The returned
        function waits for the words and their certainty."""
        key = f"{recording.name}|words {sentence.first} to {sentence.last}|{sentence.start:.3f}"
        if (journaled := self._journaled_words(key)) is not None:
            return lambda: journaled
        words = list(self._text.words[sentence.first : sentence.last + 1])
        resampled = resample(torch.from_numpy(samples), recording.rate, LISTENING_RATE).numpy()
        wait = self._steps.begin(aligned_words, words, resampled, sentence.start)

        def wait_and_store() -> list[HeardWord]:
            words = wait()
            self._journal.put(key, words)
            return words

        return wait_and_store

    def _journaled_words(self, key: str) -> list[HeardWord] | None:
        rows = self._journal.get(key)
        return None if rows is None else [HeardWord(*row) for row in rows]

    def _start(self, key: str, chunk: SpokenChunk) -> _WaitForWords:
        """Starts to recognise a chunk with the words that are expected now."""
        if (journaled := self._journaled_words(key)) is not None:
            return lambda: journaled
        expected = list(self._text.words[self._expected.start : self._expected.stop])
        return self._steps.begin(heard_words, expected, chunk.samples, chunk.start)

    def _finish_oldest(self) -> None:
        started = self._started_chunks.popleft()
        wait = started.wait
        if started.expected != self._expected:
            wait = self._start(started.key, started.chunk)
        words = wait()
        if self._journal.get(started.key) is None:
            self._journal.put(started.key, words)
        self.heard += words
        self.follower.add(words)
        self._expected = self._words_expected_next()

    def _words_expected_next(self) -> range:
        if self.follower.is_lost:
            return range(len(self._text.words))
        position = self.follower.position // _EXPECTED_STEP_WORDS * _EXPECTED_STEP_WORDS
        end = min(position + EXPECTED_AFTER + _EXPECTED_STEP_WORDS, len(self._text.words))
        return range(max(min(position, end - EXPECTED_AFTER) - EXPECTED_BEFORE, 0), end)


def cut_by_words(job: CutJob, text: Manuscript) -> CutResult:
    """Aligns an English text word by word. Raises CuttingError, also if the recordings say another
    text."""
    with job.listening() as progress:
        listener = TextListener(text, job.journal, job.steps)
        # The words of a recording are those from its bound to the next.
        profiles, bounds = list[SoundProfile](), [0]
        for recording in job.recordings:
            hear = functools.partial(listener.hear, recording)
            profiles.append(listen(recording, find_detector(), hear, progress))
            listener.finish()
            check_unchanged(recording)
            bounds.append(len(listener.heard))
        listener.follower.finish()
        index_of_word = trusted_matches(listener.follower.matches, listener.heard, text)
        cause = clipping_warning(profiles) or wrong_order_advice(listener.heard, text)
        counts = (len(listener.heard), len(text.words))
        _refuse_other_text(len(index_of_word), *counts, job.recordings, cause)
        cuts, certain_words, num_placed = list[CutRecording](), set[int](), 0
        for number, (recording, profile) in enumerate(zip(job.recordings, profiles)):
            first, last = bounds[number], bounds[number + 1]
            own_index_of_word = {
                word: index - first for word, index in index_of_word.items() if first <= index < last
            }
            recognised = listener.heard[first:last]
            doubtful = doubtful_sentences(text, own_index_of_word, recognised, recording.seconds)
            checked = _check(recording, doubtful, listener, job.steps.ahead)
            units = place_units(text, own_index_of_word, recognised, checked)
            num_placed += sum(len(unit.text.split()) for unit in units)
            cuts.append(cut_recording(recording, profile, units))
            certain_words |= own_index_of_word.keys() | {
                word for word, aligned in checked.items() if (aligned.certainty or 0.0) >= MIN_CERTAINTY
            }
    # A language model of a short text recognises its phrases in any sound; the check rejects them.
    _refuse_other_text(num_placed, *counts, job.recordings, cause)
    unheard = [
        number
        for number, words in enumerate(text.words_of_sentence)
        if 2 * sum(word in certain_words for word in words) < len(words)
    ]
    moved = frozenset(unheard) & set(sentences_heard_once(listener.heard, text))
    return CutResult(cuts, unheard, moved)


def _check(
    recording: SourceRecording, doubtful: Sequence[DoubtfulSentence], listener: TextListener, ahead: int
) -> dict[int, HeardWord]:
    """Aligns doubtful sentences separately; returns their words by number."""
    checked = dict[int, HeardWord]()
    rate = recording.rate
    doubtful = sorted(doubtful, key=lambda sentence: sentence.end)
    spans = [
        (int(sentence.start * rate), min(int(sentence.end * rate), recording.frames)) for sentence in doubtful
    ]

    started = (
        (doubtful[index], listener.check(recording, doubtful[index], samples))
        for index, samples in read_spans(recording, spans)
    )
    waits = with_progress(lookahead(started, ahead), len(doubtful), "Checking", "sentences")
    for sentence, wait_for_words in waits:
        checked |= dict(zip(range(sentence.first, sentence.last + 1), wait_for_words()))
    return checked


def _refuse_other_text(
    matched: int, recognised: int, written: int, recordings: Sequence[SourceRecording], cause: str
) -> None:
    """Raises CuttingError if too few words matched. cause: an explanation other than a wrong text;
    "" if there is none."""
    if recognised < _MIN_RECOGNISED_WORDS and written >= _MIN_RECOGNISED_WORDS:
        raise CuttingError(
            f"{recordings[0].path} holds almost no English speech ({recognised} words recognised).{cause}"
        )
    if matched < _MIN_MATCHED_SHARE * min(recognised, written):
        cause = cause or " Is it the text of another recording, or in another language?"
        raise CuttingError(
            f"The text does not fit {recordings[0].path}: {matched} of its {written:,} words were "
            f"found in order among {recognised:,} recognised ones.{cause} Nothing was written."
        )


def sentences_heard_once(recognised: Sequence[HeardWord], text: Manuscript) -> list[int]:
    """The sentences that are recognised completely and exactly once, in the order of the recording,
    which may differ from the text's."""
    recognised_words = [word.text for word in recognised]
    starts_of: dict[tuple[str, ...], list[int]] = {}
    for words in text.words_of_sentence:
        if len(words) >= _MIN_SENTENCE_WORDS:
            starts_of.setdefault(tuple(text.words[word] for word in words), [])
    for length in {len(words) for words in starts_of}:
        for start in range(len(recognised_words) - length + 1):
            if (starts := starts_of.get(tuple(recognised_words[start : start + length]))) is not None:
                starts.append(start)
    start_of_sentence = {}
    for number, words in enumerate(text.words_of_sentence):
        starts = starts_of.get(tuple(text.words[word] for word in words), [])
        if len(starts) == 1:
            start_of_sentence[number] = starts[0]
    return sorted(start_of_sentence, key=lambda number: start_of_sentence[number])


def wrong_order_advice(recognised: Sequence[HeardWord], text: Manuscript) -> str:
    """The advice for a text that is mostly recognised, but in another order than written; else
    ""."""
    order = sentences_heard_once(recognised, text)
    if 2 * len(order) < len(text.sentences):
        return ""
    for sentence, next_sentence in itertools.pairwise(order):
        if next_sentence < sentence:
            return (
                " Its sentences are spoken in another order than they are written: sentence "
                f"{sentence + 1} before sentence {next_sentence + 1}. Put the text in the order of the "
                "recording."
            )
    return ""
