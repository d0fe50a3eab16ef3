"""Detects speech with Silero VAD, or by the level of the sound if that is not installed.

Silero VAD (https://github.com/snakers4/silero-vad) runs in ONNX Runtime. Both detectors give a
value for each 32 ms. Of Silero's wheel, only the model that takes a whole block
(`silero_vad_16k_sequence.onnx`) is used. The package's own code is not, because it imports another
version of torchaudio than ours.
"""

import importlib.util
from pathlib import Path

import numpy as np

from extras.common.onnxruntime.sessions import OnnxSessionOptions, RuntimeMissing, open_session
from extras.cut.recordings import LISTENING_RATE

VAD_FRAME_SAMPLES = 512
VAD_FRAME_SECONDS = VAD_FRAME_SAMPLES / LISTENING_RATE
LEVEL_FRAME_SAMPLES = LISTENING_RATE // 100
LEVEL_FRAME_SECONDS = 0.01
MIN_LEVEL_DB = -100.0
# Speech begins at the first probability and ends below the second.
MIN_SPEECH_PROBABILITY, MAX_PAUSE_PROBABILITY = 0.5, 0.35
# Without a text, speech is not cut at a shorter silence.
MIN_TEXTLESS_PAUSE_SECONDS = 0.5
SPAN_MARGIN_SECONDS = 0.1
_VAD_CONTEXT_SAMPLES = 64
_MODEL = "data/silero_vad_16k_sequence.onnx"
# For detection by level: how far speech is above the quietest tenth of a block.
_ABOVE_QUIET_DB = 12.0


def find_detector() -> "SileroDetector | LevelDetector":
    """Silero VAD if it and ONNX Runtime are installed, otherwise detection by level; `description`
    says which. Pass the blocks of a recording to it in order."""
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
        self._context = np.zeros(_VAD_CONTEXT_SAMPLES, np.float32)
        self._state = [np.zeros((1, 1, 128), np.float32)] * 2
        self.description = "Silero VAD"

    def listen(self, block: np.ndarray) -> np.ndarray:
        """[samples] at 16 kHz -> [frames]; the last frame of a recording is padded with zeros."""
        frames = _frames_of(block, VAD_FRAME_SAMPLES)
        contexts = np.concatenate((self._context[None], frames[:-1, -_VAD_CONTEXT_SAMPLES:]))
        self._context = frames[-1, -_VAD_CONTEXT_SAMPLES:]
        inputs = {"input": np.concatenate((contexts, frames), axis=1)}
        inputs |= {"h": self._state[0], "c": self._state[1]}
        probabilities, *self._state = self._session.run(None, inputs)
        return np.asarray(probabilities, np.float32).reshape(-1)


class LevelDetector:
    """1 where the sound is 12 dB louder than the quietest tenth of the last block, else 0."""

    def __init__(self, reason: str) -> None:
        self.description = f"the level alone, because {reason} (extra `cut`)"

    def listen(self, block: np.ndarray) -> np.ndarray:
        """[samples] at 16 kHz -> [frames]."""
        levels = levels_of(block, VAD_FRAME_SAMPLES)
        audible = levels[levels > MIN_LEVEL_DB + 20]
        quiet_db = float(np.quantile(audible, 0.1)) if len(audible) else 0.0
        # In a block of uninterrupted speech, the quietest tenth is not quiet.
        quiet_db = min(quiet_db, float(levels.max()) - 2 * _ABOVE_QUIET_DB)
        return (levels > quiet_db + _ABOVE_QUIET_DB).astype(np.float32)


Detector = SileroDetector | LevelDetector


def levels_of(block: np.ndarray, frame_samples: int = LEVEL_FRAME_SAMPLES) -> np.ndarray:
    """The root mean square of each frame in dB relative to full scale, at least `MIN_LEVEL_DB`."""
    power = np.square(_frames_of(block, frame_samples)).mean(axis=1)
    decibels: np.ndarray = 10 * np.log10(np.maximum(power, 10 ** (MIN_LEVEL_DB / 10)))
    return decibels.astype(np.float32)


def speech_spans(probabilities: np.ndarray) -> list[tuple[float, float]]:
    """(start, end) of speech in seconds, with 0.1 s added on both sides. Two spans with less than
    `MIN_TEXTLESS_PAUSE_SECONDS` of silence between them become one."""
    spans, first_frame = list[tuple[float, float]](), -1
    for frame, probability in enumerate((*probabilities, 0.0)):
        if first_frame < 0 and probability >= MIN_SPEECH_PROBABILITY:
            first_frame = frame
        elif first_frame >= 0 and probability < MAX_PAUSE_PROBABILITY:
            start = max(first_frame * VAD_FRAME_SECONDS - SPAN_MARGIN_SECONDS, 0.0)
            end = frame * VAD_FRAME_SECONDS + SPAN_MARGIN_SECONDS
            min_gap = MIN_TEXTLESS_PAUSE_SECONDS - 2 * SPAN_MARGIN_SECONDS
            if spans and start - spans[-1][1] < min_gap:
                start = spans.pop()[0]
            spans.append((start, end))
            first_frame = -1
    return spans


def _frames_of(block: np.ndarray, frame_samples: int) -> np.ndarray:
    """[samples] -> [frames, frame_samples]; the last frame is padded with zeros."""
    count = -(-len(block) // frame_samples)
    padded = np.zeros(count * frame_samples, np.float32)
    padded[: len(block)] = block
    return padded.reshape(count, frame_samples)
