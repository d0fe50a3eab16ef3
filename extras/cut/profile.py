"""Measures a recording in one pass: its level, its speech and its pauses.

At most two blocks of sound are in memory; a profile holds a few bytes for each 10 ms.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from extras.cut.recordings import (
    LISTENING_RATE,
    CuttingError,
    SourceRecording,
    check_unchanged,
    resampled_blocks,
)
from extras.cut.speech_detection import (
    LEVEL_FRAME_SAMPLES,
    LEVEL_FRAME_SECONDS,
    MAX_PAUSE_PROBABILITY,
    MIN_SPEECH_PROBABILITY,
    VAD_FRAME_SAMPLES,
    VAD_FRAME_SECONDS,
    Detector,
    find_detector,
    levels_of,
)
from train.progress import Progress

# The shortest silence between two words of a text at which speech is cut.
MIN_PAUSE_SECONDS = 0.12
# Silence before the first word of a breath and after its last one may be shorter, because no word
# is cut there.
MIN_EDGE_PAUSE_SECONDS = 0.04
# The tolerance of a recogniser's word times.
_WORD_TIME_TOLERANCE_SECONDS = 0.12
MARGIN_SECONDS, WIDE_MARGINS_SECONDS = 0.15, (0.3, 0.45)
# Silence is at most this far above the background, and nearer to it than to speech.
_ABOVE_BACKGROUND_DB, _BELOW_SPEECH_DB = 9.0, 24.0
# A less probable frame is silent at any level.
_MAX_SILENCE_PROBABILITY = 0.15
# The threshold of silence is computed again every 5 s, from the level within 3 s around them.
_SILENCE_WINDOW_FRAMES, _SILENCE_CONTEXT_FRAMES = 500, 300
_MAX_CHUNK_FRAMES, _MIN_CHUNK_FRAMES = int(20 / VAD_FRAME_SECONDS), int(6 / VAD_FRAME_SECONDS)
_CHUNK_MARGIN_FRAMES = 6
# A sample counts as full scale from here on.
_FULL_SCALE = 0.999


@dataclass(frozen=True)
class SoundProfile:
    """The measurements of a recording.

    Attributes:
        level_db: The level of each 10 ms.
        speech: The probability of speech for each 32 ms.
        clipped: For each 10 ms, whether two samples in a row reached full scale.
    """

    level_db: np.ndarray
    speech: np.ndarray
    clipped: np.ndarray

    def background_db(self, start: float, end: float) -> float:
        """The level that the quietest twentieth of the frames from 5 s before to 5 s after is
        below."""
        first = max(int((start - 5) / LEVEL_FRAME_SECONDS), 0)
        surrounding = self.level_db[first : int((end + 5) / LEVEL_FRAME_SECONDS) + 1]
        return float(np.quantile(surrounding, 0.05)) if len(surrounding) else 0.0


@dataclass(frozen=True)
class Pause:
    """Silence between two words, in seconds."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        """Its length in seconds."""
        return self.end - self.start

    def clip_end(self, margin: float = MARGIN_SECONDS) -> float:
        """The end of a clip that is followed by this pause, in seconds."""
        return self.start + min(margin, self.seconds / 2)

    def clip_start(self, margin: float = MARGIN_SECONDS) -> float:
        """The start of a clip that follows this pause, in seconds."""
        return self.end - min(margin, self.seconds / 2)


def pause_between(
    profile: SoundProfile,
    last_end: float,
    next_start: float,
    tolerance: float = _WORD_TIME_TOLERANCE_SECONDS,
    min_seconds: float = MIN_PAUSE_SECONDS,
) -> Pause | None:
    """The longest pause between the end of a word and the start of the next, whose times may be
    wrong by `tolerance` seconds; None if the pause is shorter than `min_seconds`."""
    first = max(int((last_end - tolerance) / LEVEL_FRAME_SECONDS), 0)
    last = min(int((next_start + tolerance) / LEVEL_FRAME_SECONDS) + 1, len(profile.level_db))
    if last <= first:
        return None
    # A pause must touch the gap between the words; otherwise it is the closure of a plosive inside
    # a word.
    silent_runs = [
        (begin + first, end + first)
        for begin, end in runs_of(_silent_frames(profile, first, last))
        if (end + first) * LEVEL_FRAME_SECONDS >= min(last_end, next_start) - 0.02
        and (begin + first) * LEVEL_FRAME_SECONDS <= max(last_end, next_start) + 0.02
    ]
    if not silent_runs:
        return None
    begin, end = max(silent_runs, key=lambda run: run[1] - run[0])
    pause = Pause(begin * LEVEL_FRAME_SECONDS, end * LEVEL_FRAME_SECONDS)
    return pause if pause.seconds >= min_seconds - 1e-6 else None


def sounding_spans(profile: SoundProfile) -> list[tuple[float, float]]:
    """(start, end) in seconds of the sounds between pauses of `MIN_PAUSE_SECONDS`."""
    num_frames = len(profile.level_db)
    silent = np.concatenate(
        [
            _silent_frames(profile, first, min(first + _SILENCE_WINDOW_FRAMES, num_frames))
            for first in range(0, num_frames, _SILENCE_WINDOW_FRAMES)
        ]
    )
    min_frames = round(MIN_PAUSE_SECONDS / LEVEL_FRAME_SECONDS)
    for begin, end in runs_of(silent):
        if end - begin < min_frames and begin > 0 and end < num_frames:
            silent[begin:end] = False
    return [(begin * LEVEL_FRAME_SECONDS, end * LEVEL_FRAME_SECONDS) for begin, end in runs_of(~silent)]


def _silent_frames(profile: SoundProfile, first: int, last: int) -> np.ndarray:
    """Whether each 10 ms frame from `first` to before `last` is silent, [frames]."""
    start, end = first * LEVEL_FRAME_SECONDS, last * LEVEL_FRAME_SECONDS
    surrounding = profile.level_db[max(first - _SILENCE_CONTEXT_FRAMES, 0) : last + _SILENCE_CONTEXT_FRAMES]
    speech_db = float(np.quantile(surrounding, 0.9))
    background_db = profile.background_db(start, end)
    limit_db = min(background_db + _ABOVE_BACKGROUND_DB, (background_db + speech_db) / 2)
    limit_db = max(limit_db, speech_db - 2 * _BELOW_SPEECH_DB)
    vad_frames = ((np.arange(first, last) + 0.5) * LEVEL_FRAME_SECONDS / VAD_FRAME_SECONDS).astype(int)
    speech = profile.speech[np.minimum(vad_frames, len(profile.speech) - 1)]
    silent: np.ndarray = (profile.level_db[first:last] < limit_db) | (speech < _MAX_SILENCE_PROBABILITY)
    return silent


def runs_of(flags: np.ndarray) -> list[tuple[int, int]]:
    """(first, last + 1) of each run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], flags, [False])).astype(np.int8)))
    return [(int(begin), int(end)) for begin, end in zip(edges[::2], edges[1::2])]


@dataclass(frozen=True)
class SpokenChunk:
    """At most 20 s of sound at 16 kHz, cut at pauses. start: in seconds of its recording."""

    start: float
    samples: np.ndarray


def measure(recording: SourceRecording, speech_by: str, progress: Progress | None = None) -> SoundProfile:
    """Measures a recording without recognising words. Can run as a step.

    progress: counts seconds of sound; None if the caller counts them.

    Raises CuttingError if this machine lacks the detector `speech_by`, or if the file changed.
    """
    detector = find_detector()
    if detector.description != speech_by:
        raise CuttingError(
            f"A worker detects speech by {detector.description}, the others by {speech_by}. "
            "Install the same packages on all machines."
        )
    profile = listen(recording, detector, None, progress)
    check_unchanged(recording)
    return profile


def listen(
    recording: SourceRecording,
    detector: Detector,
    hear: Callable[[SpokenChunk], None] | None,
    progress: Progress | None = None,
) -> SoundProfile:
    """Measures a recording in one pass. `hear` is called with each chunk that has speech;
    `progress` counts the seconds of sound."""
    levels, speech, clipped = list[np.ndarray](), list[np.ndarray](), list[np.ndarray]()

    def measured_blocks() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for block in resampled_blocks(recording, LISTENING_RATE):
            levels.append(levels_of(block))
            clipped.append(_clipped_frames(block))
            speech.append(detector.listen(block))
            yield block, speech[-1]
            if progress is not None:
                progress.add(len(block) / LISTENING_RATE)

    for chunk in _chunks_of(measured_blocks()):
        if hear is not None:
            hear(chunk)
    return SoundProfile(np.concatenate(levels), np.concatenate(speech), np.concatenate(clipped))


def _chunks_of(blocks: Iterator[tuple[np.ndarray, np.ndarray]]) -> Iterator[SpokenChunk]:
    """Cuts blocks, with their probabilities of speech, into chunks that contain speech."""
    samples, speech, first = np.zeros(0, np.float32), np.zeros(0, np.float32), 0
    for block, probabilities in blocks:
        samples = np.concatenate((samples, block))
        speech = np.concatenate((speech, probabilities))
        while len(speech) > _MAX_CHUNK_FRAMES:
            cut = _chunk_end(speech[:_MAX_CHUNK_FRAMES])
            yield from _speech_chunks(samples[: cut * VAD_FRAME_SAMPLES], speech[:cut], first)
            samples, speech, first = samples[cut * VAD_FRAME_SAMPLES :], speech[cut:], first + cut
    yield from _speech_chunks(samples, speech, first)


def _chunk_end(speech: np.ndarray) -> int:
    """The frame to cut at: the middle of the longest pause after the first 6 s, or without a pause
    the frame where speech is least likely."""
    later = speech[_MIN_CHUNK_FRAMES:]
    pauses = [(last - first, (last + first) // 2) for first, last in runs_of(later < MAX_PAUSE_PROBABILITY)]
    return _MIN_CHUNK_FRAMES + (max(pauses)[1] if pauses else int(later.argmin()))


def _speech_chunks(samples: np.ndarray, speech: np.ndarray, first: int) -> Iterator[SpokenChunk]:
    """The part of the frames with speech as a chunk, if there is speech. first: the number of the
    first frame in the recording."""
    spoken = np.flatnonzero(speech >= MIN_SPEECH_PROBABILITY)
    if len(spoken):
        begin = max(int(spoken[0]) - _CHUNK_MARGIN_FRAMES, 0)
        end = min(int(spoken[-1]) + 1 + _CHUNK_MARGIN_FRAMES, len(speech))
        start = (first + begin) * VAD_FRAME_SECONDS
        yield SpokenChunk(start, samples[begin * VAD_FRAME_SAMPLES : end * VAD_FRAME_SAMPLES])


def _clipped_frames(block: np.ndarray) -> np.ndarray:
    """For each 10 ms, whether two consecutive samples are at full scale. At 16 kHz this is a lower
    bound, because resampling rounds clipped peaks."""
    full = np.abs(block) >= _FULL_SCALE
    clipped = np.zeros(-(-len(block) // LEVEL_FRAME_SAMPLES) * LEVEL_FRAME_SAMPLES, bool)
    clipped[1 : len(block)] = full[1:] & full[:-1]
    return np.asarray(clipped.reshape(-1, LEVEL_FRAME_SAMPLES).any(axis=1))
