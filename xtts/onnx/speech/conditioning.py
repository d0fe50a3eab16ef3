"""Computes the latents of a recording with the ONNX conditioning and speaker graphs.

The sessions are closed after the encoding, because speaking does not need their 0.22 GB (at
XTTS-v2's size).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from machine.onnxruntime import sessions
from xtts.audio import speaker_mel
from xtts.inference import latents_file
from xtts.inference.speech import Voice
from xtts.joined_reference import Reference
from xtts.model.loading import Model
from xtts.onnx import folder as folders
from xtts.onnx.speech.loading import OnnxModel


class OnnxVoiceEncoder:
    """Takes the place of `xtts.model.loading.Model` when a recording is encoded
    (`xtts.inference.voice`)."""

    device = torch.device("cpu")

    def __init__(self, model: OnnxModel) -> None:
        self.config = model.config
        self.mel_stats = torch.from_numpy(np.load(model.folder / folders.MEL_STATS))
        self.gpt = self
        self._model = model
        self._sessions: dict[str, Any] = {}

    @contextmanager
    def voice_encoder(self) -> Iterator["OnnxVoiceEncoder"]:
        """Returns itself, which can encode recordings."""
        yield self

    def conditioning_latents(self, mel: Tensor) -> Tensor:
        """Mel [batch, 80, frames] -> latents [batch, 32, width]."""
        return self._ran(folders.CONDITIONING, mel)

    def speaker_encoder(self, waveform: Tensor) -> Tensor:
        """Waveform [batch, samples] at 16 kHz -> [batch, 512, 1]."""
        return self._ran(folders.SPEAKER, speaker_mel(waveform))

    def _ran(self, name: str, mel: Tensor) -> Tensor:
        if name not in self._sessions:
            path, model = self._model.folder / name, self._model
            self._sessions[name] = sessions.open_session(path, model.wish, model.options).session
        (output,) = self._sessions[name].run(None, {"mel": mel.numpy()})
        return torch.from_numpy(output)


def onnx_latents_of_recording(
    model: OnnxModel, recording: Reference, kept: Path | None = None
) -> Voice:
    """The latents of one or several recordings. kept: a folder that caches them by weights and
    recording. Raises AudioError or VoiceError."""
    encoder = cast(Model, OnnxVoiceEncoder(model))
    latents = latents_file.latents_of_recording(encoder, model.voice.weights, recording, kept)
    return Voice(latents.latents.numpy(), latents.speaker.numpy())
