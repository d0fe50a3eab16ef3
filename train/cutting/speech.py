"""Where somebody speaks: Silero VAD by ONNX Runtime, or the level where that is not installed.

Both give one value for each 32 ms. Silero VAD: https://github.com/snakers4/silero-vad; the model of
its wheel that takes a whole block (`silero_vad_16k_sequence.onnx`) is run as it stands, without the
package's own code, which imports torchaudio in another version than ours.
"""

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from machine.onnxruntime.sessions import OnnxSessionOptions, RuntimeMissing, open_session
from train.cutting.sound import LISTENING_RATE

VAD_FRAME = 512
VAD_SECONDS = VAD_FRAME / LISTENING_RATE
LEVEL_FRAME = LISTENING_RATE // 100
LEVEL_SECONDS = 0.01
SILENT_DB = -100.0
_VAD_CONTEXT = 64
_MODEL = "data/silero_vad_16k_sequence.onnx"
_BEGINS, _ENDS = 0.5, 0.35
# By level: this much above what is quiet around, which is the tenth part of a minute.
_ABOVE_QUIET_DB = 12.0
_SHORTEST_GAP_SECONDS = 0.3
_SPAN_MARGIN_SECONDS = 0.1


class SpeechDetector(Protocol):
    """Told blocks one after the other."""

    told: str

    def listen(self, block: np.ndarray) -> np.ndarray: ...


def find_detector() -> SpeechDetector:
    """Silero VAD where it and ONNX Runtime are installed, else by level; `told` says which."""
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
    """Probability of speech, 0..1, for each 32 ms."""

    def __init__(self, model: Path) -> None:
        self._session = open_session(model, "cpu", OnnxSessionOptions(threads=1)).session
        self._context = np.zeros(_VAD_CONTEXT, np.float32)
        self._state = [np.zeros((1, 1, 128), np.float32)] * 2
        self.told = "Silero VAD"

    def listen(self, block: np.ndarray) -> np.ndarray:
        """[samples] at 16 kHz -> [frames]; the last frame of a recording is padded with zeros."""
        frames = _framed(block, VAD_FRAME)
        before = np.concatenate((self._context[None], frames[:-1, -_VAD_CONTEXT:]))
        self._context = frames[-1, -_VAD_CONTEXT:]
        inputs = {"input": np.concatenate((before, frames), axis=1)}
        inputs |= {"h": self._state[0], "c": self._state[1]}
        found, *self._state = self._session.run(None, inputs)
        return np.asarray(found, np.float32).reshape(-1)


class LevelDetector:
    """1 where it is 12 dB louder than the quietest tenth of the last block, else 0."""

    def __init__(self, reason: str) -> None:
        self.told = f"the level alone, because {reason} (extra `cut`)"

    def listen(self, block: np.ndarray) -> np.ndarray:
        """[samples] at 16 kHz -> [frames]."""
        loud = levels(block, VAD_FRAME)
        audible = loud[loud > SILENT_DB + 20]
        quiet = float(np.quantile(audible, 0.1)) if len(audible) else 0.0
        # A block that speaks throughout has no quiet tenth.
        quiet = min(quiet, float(loud.max()) - 2 * _ABOVE_QUIET_DB)
        return (loud > quiet + _ABOVE_QUIET_DB).astype(np.float32)


def levels(block: np.ndarray, frame: int = LEVEL_FRAME) -> np.ndarray:
    """Root mean square of each frame in dB below full scale, from `SILENT_DB` up."""
    power = np.square(_framed(block, frame)).mean(axis=1)
    found: np.ndarray = 10 * np.log10(np.maximum(power, 10 ** (SILENT_DB / 10)))
    return found.astype(np.float32)


def speech_spans(probabilities: np.ndarray) -> list[tuple[float, float]]:
    """(start, end) in seconds of what is spoken, with 0.1 s around; shorter gaps are joined."""
    found = list[tuple[float, float]]()
    for first, last in _stretches_of(probabilities):
        start = max(first * VAD_SECONDS - _SPAN_MARGIN_SECONDS, 0.0)
        end = last * VAD_SECONDS + _SPAN_MARGIN_SECONDS
        if found and start - found[-1][1] < _SHORTEST_GAP_SECONDS:
            found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    return found


def _stretches_of(probabilities: Sequence[float] | np.ndarray) -> list[tuple[int, int]]:
    """Frames (first, last + 1): begun above 0.5, ended below 0.35."""
    found, begun = list[tuple[int, int]](), -1
    for place, probability in enumerate(probabilities):
        if begun < 0 and probability >= _BEGINS:
            begun = place
        elif begun >= 0 and probability < _ENDS:
            found.append((begun, place))
            begun = -1
    if begun >= 0:
        found.append((begun, len(probabilities)))
    return found


def _framed(block: np.ndarray, frame: int) -> np.ndarray:
    """[samples] -> [frames, frame], the last one padded with zeros."""
    count = -(-len(block) // frame)
    padded = np.zeros(count * frame, np.float32)
    padded[: len(block)] = block
    return padded.reshape(count, frame)
