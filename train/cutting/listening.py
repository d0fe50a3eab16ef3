"""One pass over a recording: its levels, where speech is, and what is heard of the text.

The sound is held for at most two blocks; what stays is a few bytes for each 10 ms.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from train.cutting.alignment.following import EXPECTED_AFTER, EXPECTED_BEFORE, TextFollower
from train.cutting.alignment.manuscript import Manuscript
from train.cutting.alignment.recogniser import (
    HeardWord,
    aligned_words,
    heard_words,
    text_recogniser,
)
from train.cutting.errors import CuttingError
from train.cutting.journal import HeardJournal
from train.cutting.pauses import SoundProfile
from train.cutting.sound import (
    LISTENING_RATE,
    SourceRecording,
    check_unchanged,
    listening_blocks,
)
from train.cutting.speech import (
    LEVEL_FRAME,
    VAD_FRAME,
    VAD_SECONDS,
    SpeechDetector,
    find_detector,
    levels,
)
from train.cutting.workers.steps import Steps
from train.progress import Progress

_LONGEST_CHUNK, _SHORTEST_CHUNK = int(20 / VAD_SECONDS), int(6 / VAD_SECONDS)
_SPEECH, _PAUSE = 0.5, 0.35
_MARGIN_FRAMES = 6
# The expectation moves on with the reader in steps: a model takes a tenth of a second to build.
_EXPECTATION_STEP = 600
_FULL_SCALE = 0.999


@dataclass(frozen=True)
class SpokenChunk:
    """At most 20 s of sound at 16 kHz, cut where nobody speaks; start in seconds."""

    start: float
    samples: np.ndarray


@dataclass(frozen=True)
class _BegunChunk:
    """key: in the journal; expected: the words of the text with which it is being heard."""

    key: str
    chunk: SpokenChunk
    expected: tuple[int, int]
    words: Callable[[], list[HeardWord]]


class TextListener:
    """Hears chunk after chunk with the text that is expected next.

    Chunks are begun ahead of those that are settled, with what is expected by then. Where those
    move the expectation on, they are heard again: the words are those of one chunk at a time.

    Args:
        journal: What was heard before this process was started.
    """

    def __init__(self, text: Manuscript, journal: HeardJournal, steps: Steps) -> None:
        text_recogniser()  # raises where it is not installed
        self._text = text
        self._journal = journal
        self._steps = steps
        self._begun = deque[_BegunChunk]()
        self.follower = TextFollower(text.words)
        self.heard = list[HeardWord]()
        self._wanted = (0, min(EXPECTED_AFTER, len(text.words)))

    def hear(self, recording: SourceRecording, chunk: SpokenChunk) -> None:
        """Begins to hear one chunk, unless the journal knows it."""
        key = f"{recording.name}|{chunk.start:.3f}|{len(chunk.samples)}"
        self._begun.append(self._begin(key, chunk))
        if len(self._begun) > self._steps.ahead:
            self._settle()

    def finish(self) -> None:
        """Waits for what is begun; all of it is in `heard` then."""
        while self._begun:
            self._settle()

    def check(
        self, key: str, samples: np.ndarray, words: list[str], start: float
    ) -> Callable[[], list[HeardWord]]:
        """Begins to look for words that should be in [samples] at 16 kHz; what is returned waits
        for them, with their certainty."""
        known = self._journal.get(key)
        if known is not None:
            return lambda: known
        begun = self._steps.begin(aligned_words, words, samples, start)

        def take() -> list[HeardWord]:
            found = begun()
            self._journal.put(key, found)
            return found

        return take

    def _begin(self, key: str, chunk: SpokenChunk) -> _BegunChunk:
        known = self._journal.get(key)
        if known is not None:
            return _BegunChunk(key, chunk, self._wanted, lambda: known)
        expected = list(self._text.words[slice(*self._wanted)])
        words = self._steps.begin(heard_words, expected, chunk.samples, chunk.start)
        return _BegunChunk(key, chunk, self._wanted, words)

    def _settle(self) -> None:
        one = self._begun.popleft()
        if one.expected != self._wanted:
            one = self._begin(one.key, one.chunk)
        words = one.words()
        if self._journal.get(one.key) is None:
            self._journal.put(one.key, words)
        self.heard += words
        self.follower.add(words)
        self._wanted = self._expectation()

    def _expectation(self) -> tuple[int, int]:
        if self.follower.lost:
            return 0, len(self._text.words)
        place = self.follower.position // _EXPECTATION_STEP * _EXPECTATION_STEP
        end = min(place + EXPECTED_AFTER + _EXPECTATION_STEP, len(self._text.words))
        return max(min(place, end - EXPECTED_AFTER) - EXPECTED_BEFORE, 0), end


def measured(
    recording: SourceRecording, told: str, progress: Progress | None = None
) -> SoundProfile:
    """A recording measured without hearing words in it: a step by itself.

    progress: in seconds of sound; None where it is counted elsewhere.

    Raises CuttingError where speech is found otherwise here than `told`, or the file changed.
    """
    detector = find_detector()
    if detector.told != told:
        raise CuttingError(
            f"A worker finds speech by {detector.told}, and the others by {told}: install the same "
            "packages on every machine."
        )
    profile = listen(recording, detector, None, progress)
    check_unchanged(recording)
    return profile


def listen(
    recording: SourceRecording, detector: SpeechDetector,
    hear: Callable[[SpokenChunk], None] | None, progress: Progress | None = None,
) -> SoundProfile:  # fmt: skip
    """Measures a recording once through; `hear` is called with each chunk that has speech, and
    `progress` counts the seconds of sound."""
    measured = list[np.ndarray]()
    speech, clipped = list[np.ndarray](), list[np.ndarray]()

    def heard_blocks() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for block in listening_blocks(recording):
            measured.append(levels(block))
            clipped.append(_clipped(block))
            speech.append(detector.listen(block))
            yield block, speech[-1]
            if progress is not None:
                progress.add(len(block) / LISTENING_RATE)

    for chunk in chunks(heard_blocks()):
        if hear is not None:
            hear(chunk)
    return SoundProfile(np.concatenate(measured), np.concatenate(speech), np.concatenate(clipped))


def chunks(blocks: Iterator[tuple[np.ndarray, np.ndarray]]) -> Iterator[SpokenChunk]:
    """Blocks with their probabilities of speech -> chunks with speech in them."""
    samples, speech, first = np.zeros(0, np.float32), np.zeros(0, np.float32), 0
    for block, probabilities in blocks:
        samples = np.concatenate((samples, block))
        speech = np.concatenate((speech, probabilities))
        while len(speech) > _LONGEST_CHUNK:
            cut = _chunk_end(speech[:_LONGEST_CHUNK])
            yield from _spoken(samples[: cut * VAD_FRAME], speech[:cut], first)
            samples, speech, first = samples[cut * VAD_FRAME :], speech[cut:], first + cut
    yield from _spoken(samples, speech, first)


def _chunk_end(speech: np.ndarray) -> int:
    """The middle of the longest pause behind the first 6 s, else where speech is least likely."""
    best, begun = (0, 0), -1
    for place in range(_SHORTEST_CHUNK, len(speech) + 1):
        pausing = place < len(speech) and speech[place] < _PAUSE
        if pausing and begun < 0:
            begun = place
        elif not pausing and begun >= 0:
            best = max(best, (place - begun, (place + begun) // 2))
            begun = -1
    return best[1] or _SHORTEST_CHUNK + int(speech[_SHORTEST_CHUNK:].argmin())


def _spoken(samples: np.ndarray, speech: np.ndarray, first: int) -> Iterator[SpokenChunk]:
    places = np.flatnonzero(speech >= _SPEECH)
    if len(places):
        begin = max(int(places[0]) - _MARGIN_FRAMES, 0)
        end = min(int(places[-1]) + 1 + _MARGIN_FRAMES, len(speech))
        start = (first + begin) * VAD_SECONDS
        yield SpokenChunk(start, samples[begin * VAD_FRAME : end * VAD_FRAME])


def _clipped(block: np.ndarray) -> np.ndarray:
    """For each 10 ms, whether two samples on end are at full scale. Resampling rounds the tops of
    what was clipped: so as heard at 16 kHz it is a lower bound."""
    full = np.abs(block) >= _FULL_SCALE
    twice = np.zeros(-(-len(block) // LEVEL_FRAME) * LEVEL_FRAME, bool)
    twice[1 : len(block)] = full[1:] & full[:-1]
    return np.asarray(twice.reshape(-1, LEVEL_FRAME).any(axis=1))
