"""Measures a recording in one pass: its level, its speech and its pauses.

At most two blocks of sound are in memory; a profile holds a few bytes for each 10 ms. Silero VAD
(https://github.com/snakers4/silero-vad) in ONNX Runtime detects speech, or the level if that is not
installed; both give a value for each 32 ms. Of Silero's wheel, only the model that takes a whole
block (`silero_vad_16k_sequence.onnx`) is used. The package's own code is not, because it imports
another version of torchaudio than ours.
"""

import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from extras.common.onnxruntime.sessions import OnnxSessionOptions, RuntimeMissing, open_session
from extras.cut.recordings import (
    LISTENING_RATE,
    CuttingError,
    SourceRecording,
    check_unchanged,
    resampled_blocks,
)
from train.progress import Progress

VAD_FRAME = 512
VAD_SECONDS = VAD_FRAME / LISTENING_RATE
LEVEL_FRAME = LISTENING_RATE // 100
LEVEL_SECONDS = 0.01
SILENT_DB = -100.0
_VAD_CONTEXT = 64
_MODEL = "data/silero_vad_16k_sequence.onnx"
_BEGINS, _ENDS = 0.5, 0.35
# For detection by level: how far speech is above the quietest tenth of a block, in dB.
_ABOVE_QUIET_DB = 12.0
_SPAN_MARGIN_SECONDS = 0.1
# The shortest silence at which speech is cut: between two words of a text, and without a text.
SHORTEST_PAUSE_SECONDS, SHORTEST_TEXTLESS_PAUSE_SECONDS = 0.12, 0.5
# Silence kept before the first word of a breath and after its last one, which cuts no word.
SHORTEST_EDGE_SECONDS = 0.04
# The tolerance of a recogniser's word ends, in seconds.
_REACH_SECONDS = 0.12
MARGIN_SECONDS, WIDE_MARGINS_SECONDS = 0.15, (0.3, 0.45)
# Silence is at most this far above the background, in dB, and nearer to it than to speech.
_ABOVE_BACKGROUND_DB, _BELOW_SPEECH_DB = 9.0, 24.0
_SURELY_NO_SPEECH = 0.15
# The threshold of quiet is computed again every 5 s.
_WINDOW = 500
_LONGEST_CHUNK, _SHORTEST_CHUNK = int(20 / VAD_SECONDS), int(6 / VAD_SECONDS)
_SPEECH, _PAUSE = 0.5, 0.35
_MARGIN_FRAMES = 6
_FULL_SCALE = 0.999


def find_detector() -> "SileroDetector | LevelDetector":
    """Silero VAD if it and ONNX Runtime are installed, otherwise detection by level; `description`
    says which. Pass it the blocks in order."""
    package = importlib.util.find_spec("silero_vad")
    if package is None or package.origin is None:
        return LevelDetector("package silero-vad is not installed")
    model = Path(package.origin).parent / _MODEL
    if not model.is_file():
        return LevelDetector(f"package silero-vad has no {_MODEL}; version 6.2 has it")
    try:
        return SileroDetector(model)
    except RuntimeMissing:
        return LevelDetector("package onnxruntime is not installed")


class SileroDetector:
    """The probability of speech, 0 to 1, for each 32 ms."""

    def __init__(self, model: Path) -> None:
        self._session = open_session(model, "cpu", OnnxSessionOptions(threads=1)).session
        self._context = np.zeros(_VAD_CONTEXT, np.float32)
        self._state = [np.zeros((1, 1, 128), np.float32)] * 2
        self.description = "Silero VAD"

    def listen(self, block: np.ndarray) -> np.ndarray:
        """[samples] at 16 kHz -> [frames]; the last frame of a recording is padded with zeros."""
        frames = _frames(block, VAD_FRAME)
        before = np.concatenate((self._context[None], frames[:-1, -_VAD_CONTEXT:]))
        self._context = frames[-1, -_VAD_CONTEXT:]
        inputs = {"input": np.concatenate((before, frames), axis=1)}
        inputs |= {"h": self._state[0], "c": self._state[1]}
        probabilities, *self._state = self._session.run(None, inputs)
        return np.asarray(probabilities, np.float32).reshape(-1)


class LevelDetector:
    """1 where the sound is 12 dB louder than the quietest tenth of the last block, else 0."""

    def __init__(self, reason: str) -> None:
        self.description = f"the level alone, because {reason} (extra `cut`)"

    def listen(self, block: np.ndarray) -> np.ndarray:
        """[samples] at 16 kHz -> [frames]."""
        loud = levels(block, VAD_FRAME)
        audible = loud[loud > SILENT_DB + 20]
        quiet = float(np.quantile(audible, 0.1)) if len(audible) else 0.0
        # In a block of uninterrupted speech, the quietest tenth is not quiet.
        quiet = min(quiet, float(loud.max()) - 2 * _ABOVE_QUIET_DB)
        return (loud > quiet + _ABOVE_QUIET_DB).astype(np.float32)


def levels(block: np.ndarray, frame: int = LEVEL_FRAME) -> np.ndarray:
    """Root mean square of each frame in dB below full scale, from `SILENT_DB` up."""
    power = np.square(_frames(block, frame)).mean(axis=1)
    decibels: np.ndarray = 10 * np.log10(np.maximum(power, 10 ** (SILENT_DB / 10)))
    return decibels.astype(np.float32)


def speech_spans(probabilities: np.ndarray) -> list[tuple[float, float]]:
    """(start, end) of speech in seconds, with 0.1 s added on both sides; silence of less than
    `SHORTEST_TEXTLESS_PAUSE_SECONDS` between two of them belongs to both."""
    spans, begun = list[tuple[float, float]](), -1
    # Speech starts above 0.5 and ends below 0.35.
    for place, probability in enumerate((*probabilities, 0.0)):
        if begun < 0 and probability >= _BEGINS:
            begun = place
        elif begun >= 0 and probability < _ENDS:
            start = max(begun * VAD_SECONDS - _SPAN_MARGIN_SECONDS, 0.0)
            end = place * VAD_SECONDS + _SPAN_MARGIN_SECONDS
            gap = SHORTEST_TEXTLESS_PAUSE_SECONDS - 2 * _SPAN_MARGIN_SECONDS
            if spans and start - spans[-1][1] < gap:
                start = spans.pop()[0]
            spans.append((start, end))
            begun = -1
    return spans


def _frames(block: np.ndarray, frame: int) -> np.ndarray:
    """[samples] -> [frames, frame], the last one padded with zeros."""
    count = -(-len(block) // frame)
    padded = np.zeros(count * frame, np.float32)
    padded[: len(block)] = block
    return padded.reshape(count, frame)


@dataclass(frozen=True)
class SoundProfile:
    """The measurements of a recording. level_db: for each 10 ms; speech: the probability for each
    32 ms; clipped: for each 10 ms, whether two samples in a row reached full scale."""

    level_db: np.ndarray
    speech: np.ndarray
    clipped: np.ndarray

    def background_db(self, start: float, end: float) -> float:
        """The level below which the quietest twentieth of the surrounding ten seconds lies, in
        dB."""
        first = max(int((start - 5) / LEVEL_SECONDS), 0)
        around = self.level_db[first : int((end + 5) / LEVEL_SECONDS) + 1]
        return float(np.quantile(around, 0.05)) if len(around) else 0.0


@dataclass(frozen=True)
class Pause:
    """Silence between two words; start, end in seconds."""

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
    reach: float = _REACH_SECONDS,
    shortest: float = SHORTEST_PAUSE_SECONDS,
) -> Pause | None:
    """The longest pause between the end of a word and the start of the next; None if it is shorter
    than `shortest` seconds."""
    first = max(int((last_end - reach) / LEVEL_SECONDS), 0)
    last = min(int((next_start + reach) / LEVEL_SECONDS) + 1, len(profile.level_db))
    if last <= first:
        return None
    quiet = _quiet(profile, first, last)
    # A pause must touch the gap between the words; otherwise it is the closure of a plosive inside
    # a word.
    quiet_runs = [
        (begin + first, end + first)
        for begin, end in runs_of(quiet)
        if (end + first) * LEVEL_SECONDS >= min(last_end, next_start) - 0.02
        and (begin + first) * LEVEL_SECONDS <= max(last_end, next_start) + 0.02
    ]
    if not quiet_runs:
        return None
    begin, end = max(quiet_runs, key=lambda run: run[1] - run[0])
    pause = Pause(begin * LEVEL_SECONDS, end * LEVEL_SECONDS)
    return pause if pause.seconds >= shortest - 1e-6 else None


def sounding_spans(profile: SoundProfile) -> list[tuple[float, float]]:
    """(start, end) in seconds of the sounds between pauses of `SHORTEST_PAUSE_SECONDS`."""
    quiet = np.concatenate(
        [
            _quiet(profile, first, min(first + _WINDOW, len(profile.level_db)))
            for first in range(0, len(profile.level_db), _WINDOW)
        ]
    )
    shortest = round(SHORTEST_PAUSE_SECONDS / LEVEL_SECONDS)
    for begin, end in runs_of(quiet):
        if end - begin < shortest and begin > 0 and end < len(quiet):
            quiet[begin:end] = False
    return [(begin * LEVEL_SECONDS, end * LEVEL_SECONDS) for begin, end in runs_of(~quiet)]


def _quiet(profile: SoundProfile, first: int, last: int) -> np.ndarray:
    start, end = first * LEVEL_SECONDS, last * LEVEL_SECONDS
    around = profile.level_db[max(first - 300, 0) : last + 300]
    speech_db = float(np.quantile(around, 0.9))
    background = profile.background_db(start, end)
    limit = min(background + _ABOVE_BACKGROUND_DB, (background + speech_db) / 2)
    limit = max(limit, speech_db - 2 * _BELOW_SPEECH_DB)
    by_level = profile.level_db[first:last] < limit
    place = ((np.arange(first, last) + 0.5) * LEVEL_SECONDS / VAD_SECONDS).astype(int)
    speech = profile.speech[np.minimum(place, len(profile.speech) - 1)]
    quiet: np.ndarray = by_level | (speech < _SURELY_NO_SPEECH)
    return quiet


def runs_of(flags: np.ndarray) -> list[tuple[int, int]]:
    """(first, last + 1) of each run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], flags, [False])).astype(np.int8)))
    return [(int(begin), int(end)) for begin, end in zip(edges[::2], edges[1::2])]


@dataclass(frozen=True)
class SpokenChunk:
    """At most 20 s of sound at 16 kHz, cut at pauses. start: in seconds."""

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
    detector: "SileroDetector | LevelDetector",
    hear: Callable[[SpokenChunk], None] | None,
    progress: Progress | None = None,
) -> SoundProfile:
    """Measures a recording in one pass. `hear` is called with each chunk that has speech;
    `progress` counts the seconds of sound."""
    measured = list[np.ndarray]()
    speech, clipped = list[np.ndarray](), list[np.ndarray]()

    def heard_blocks() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for block in resampled_blocks(recording, LISTENING_RATE):
            measured.append(levels(block))
            clipped.append(_clipping(block))
            speech.append(detector.listen(block))
            yield block, speech[-1]
            if progress is not None:
                progress.add(len(block) / LISTENING_RATE)

    for chunk in chunks(heard_blocks()):
        if hear is not None:
            hear(chunk)
    return SoundProfile(np.concatenate(measured), np.concatenate(speech), np.concatenate(clipped))


def chunks(blocks: Iterator[tuple[np.ndarray, np.ndarray]]) -> Iterator[SpokenChunk]:
    """Cuts blocks, with their probabilities of speech, into chunks that contain speech."""
    samples, speech, first = np.zeros(0, np.float32), np.zeros(0, np.float32), 0
    for block, probabilities in blocks:
        samples = np.concatenate((samples, block))
        speech = np.concatenate((speech, probabilities))
        while len(speech) > _LONGEST_CHUNK:
            cut = _chunk_end(speech[:_LONGEST_CHUNK])
            yield from _speech_chunks(samples[: cut * VAD_FRAME], speech[:cut], first)
            samples, speech, first = samples[cut * VAD_FRAME :], speech[cut:], first + cut
    yield from _speech_chunks(samples, speech, first)


def _chunk_end(speech: np.ndarray) -> int:
    """The frame to cut at: the middle of the longest pause after the first 6 s, or without a pause
    the frame where speech is least likely."""
    later = speech[_SHORTEST_CHUNK:]
    pauses = [(last - first, (last + first) // 2) for first, last in runs_of(later < _PAUSE)]
    return _SHORTEST_CHUNK + (max(pauses)[1] if pauses else int(later.argmin()))


def _speech_chunks(samples: np.ndarray, speech: np.ndarray, first: int) -> Iterator[SpokenChunk]:
    places = np.flatnonzero(speech >= _SPEECH)
    if len(places):
        begin = max(int(places[0]) - _MARGIN_FRAMES, 0)
        end = min(int(places[-1]) + 1 + _MARGIN_FRAMES, len(speech))
        start = (first + begin) * VAD_SECONDS
        yield SpokenChunk(start, samples[begin * VAD_FRAME : end * VAD_FRAME])


def _clipping(block: np.ndarray) -> np.ndarray:
    """For each 10 ms, whether two consecutive samples are at full scale. At 16 kHz this is a lower
    bound, because resampling rounds clipped peaks."""
    full = np.abs(block) >= _FULL_SCALE
    twice = np.zeros(-(-len(block) // LEVEL_FRAME) * LEVEL_FRAME, bool)
    twice[1 : len(block)] = full[1:] & full[:-1]
    return np.asarray(twice.reshape(-1, LEVEL_FRAME).any(axis=1))
