"""The user's speaker and spoof models: ONNX files such as ECAPA-TDNN and AASIST.

The shape of a model's one input decides what it gets: samples at 16 kHz, `[batch, samples]` or
`[batch, 1, samples]`, or 80 log-mel bands, `[batch, frames, 80]` or `[batch, 80, frames]` (Kaldi's
filterbanks minus the mean of each band, as for WeSpeaker). Other shapes are refused.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from extras.common.onnxruntime import sessions
from machine.errors import SotaqueError
from xtts.audio import MEL_BANDS, SPEAKER_RATE

# A shorter vector is hardly an embedding, but rather a class or a score.
_MIN_DIMENSIONS = 16
# Kaldi's samples are scaled like 16-bit integers.
_FULL_SCALE = 32_768.0
_FRAME_MS, _HOP_MS = 25.0, 10.0
_MIN_FRAMES = 10


class OutsideModelError(SotaqueError):
    """An ONNX file has unsupported inputs or outputs; the message names its shapes."""


class ModelInput(NamedTuple):
    """The input of a model.

    Attributes:
        kind: By the order of the dimensions: samples, one_channel, frames_bands or bands_frames.
        length: The number of samples or frames, if it is fixed.
    """

    name: str
    kind: str
    length: int | None


def recognise_input(setting: str, path: Path, inputs: Sequence[tuple[str, Sequence[object]]]) -> ModelInput:
    """The input of a model, from (name, shape) of all its inputs; free dimensions are not numbers.

    Raises:
        OutsideModelError: The inputs are unknown.
    """
    if len(inputs) == 1:
        name, shape = inputs[0]
        match [size if isinstance(size, int) and size > 0 else None for size in shape]:
            case [None | 1, length] if length is None or length >= SPEAKER_RATE // 2:
                return ModelInput(name, "samples", length)
            case [None | 1, 1, length] if length is None or length >= SPEAKER_RATE // 2:
                return ModelInput(name, "one_channel", length)
            case [None | 1, length, bands] if bands == MEL_BANDS:
                return ModelInput(name, "frames_bands", length)
            case [None | 1, bands, length] if bands == MEL_BANDS:
                return ModelInput(name, "bands_frames", length)
    shapes = "; ".join(f"{name} {_shape_text(shape)}" for name, shape in inputs)
    raise OutsideModelError(
        f"The model in {setting}={path} has the inputs {shapes or 'none'}. It must have one: "
        "samples at 16 kHz, [batch, samples] or [batch, 1, samples], or 80 log-mel bands, "
        "[batch, frames, 80] or [batch, 80, frames]."
    )


class OutsideModel:
    """An opened ONNX file.

    Args:
        setting: The setting that names it, for messages.

    Raises:
        OutsideModelError: The file is missing, or has unknown inputs.
        RuntimeMissing: ONNX Runtime is not installed.
        ModelRefused: ONNX Runtime cannot open it.
    """

    def __init__(self, setting: str, path: Path) -> None:
        if not path.is_file():
            raise OutsideModelError(f"{setting}={path} is not a file. Name an ONNX model.")
        options = sessions.OnnxSessionOptions(threads=1)
        self.session = sessions.open_session(path, "cpu", options).session
        inputs = [(node.name, node.shape) for node in self.session.get_inputs()]
        self.input = recognise_input(setting, path, inputs)
        self._label = f"{setting}={path}"

    def embedding(self, waveform: torch.Tensor) -> np.ndarray:
        """`[width]` of `[samples]` at 16 kHz: the first output. Raises OutsideModelError."""
        vector = self._run(waveform)[0].reshape(-1)
        if len(vector) < _MIN_DIMENSIONS or not np.isfinite(vector).all():
            raise OutsideModelError(
                f"{self._label} gives {len(vector)} numbers, of which "
                f"{int(np.isfinite(vector).sum())} are finite. A speaker model gives an embedding "
                f"of {_MIN_DIMENSIONS} or more."
            )
        return vector

    def spoof_score(self, waveform: torch.Tensor) -> float:
        """The score of `[samples]` at 16 kHz; higher is more likely a recording than synthetic.
        An output of two numbers gives logit 1 minus logit 0 (AASIST's order); an output of one
        number is the score.

        Raises:
            OutsideModelError: The model has no such output.
        """
        outputs = [output.reshape(-1) for output in self._run(waveform)]
        for width in (2, 1):
            for output in outputs:
                if len(output) == width and np.isfinite(output).all():
                    return float(output[-1] - output[0]) if width == 2 else float(output[0])
        raise OutsideModelError(
            f"{self._label} gives {', '.join(str(len(output)) for output in outputs)} numbers. A spoof "
            "model gives two logits, made and recorded, or one score."
        )

    def _run(self, waveform: torch.Tensor) -> list[np.ndarray]:
        batch = self._prepare_batch(waveform)
        try:
            return [np.asarray(output) for output in self.session.run(None, {self.input.name: batch})]
        except Exception as error:  # ONNX Runtime's errors derive from Exception
            message = " ".join(str(error).split())[:300]
            raise OutsideModelError(
                f"{self._label} fails on {_shape_text(batch.shape)} ({self.input.kind}): {message}"
            ) from error

    def _prepare_batch(self, waveform: torch.Tensor) -> np.ndarray:
        """`[samples]` at 16 kHz in the model's shape; repeated or cut to a fixed length, as in
        AASIST's evaluation."""
        kind, length = self.input.kind, self.input.length
        rows = waveform.numpy() if kind in ("samples", "one_channel") else log_mel_bands(waveform)
        if length is not None and len(rows) != length:
            repeats = -(-length // max(1, len(rows)))
            rows = np.concatenate([rows] * repeats)[:length]
        batch = rows[None, None] if kind == "one_channel" else rows[None]
        return batch if kind != "bands_frames" else np.ascontiguousarray(batch.swapaxes(1, 2))


def log_mel_bands(waveform: torch.Tensor) -> np.ndarray:
    """`[samples]` at 16 kHz -> `[frames, 80]`, minus the mean of each band."""
    from torchaudio.compliance.kaldi import fbank

    min_samples = int(SPEAKER_RATE * (_FRAME_MS + _HOP_MS * _MIN_FRAMES) / 1000)
    if len(waveform) < min_samples:
        waveform = torch.nn.functional.pad(waveform, (0, min_samples - len(waveform)))
    bands: torch.Tensor = fbank(
        waveform[None] * _FULL_SCALE,
        num_mel_bins=MEL_BANDS,
        frame_length=_FRAME_MS,
        frame_shift=_HOP_MS,
        sample_frequency=SPEAKER_RATE,
        window_type="hamming",
        dither=0.0,
    )
    return (bands - bands.mean(0)).numpy()


def _shape_text(shape: Sequence[object]) -> str:
    return "[" + ", ".join(str(size) for size in shape) + "]"
