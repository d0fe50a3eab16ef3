"""Voice latents of a recording by the ONNX conditioning and speaker graphs.

The sessions are closed after the encoding: at XTTS-v2's size they are 0.22 GB that is not needed
to speak.
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
from xtts.model.config import ModelConfig
from xtts.model.loading import Model
from xtts.onnx import folder as folders
from xtts.onnx.speech.loading import OnnxComputeConfig, OnnxLatents


class OnnxVoiceEncoder:
    """Stands for `xtts.model.loading.Model` where a voice is taken from a recording
    (`xtts.inference.voice`)."""

    device = torch.device("cpu")

    def __init__(self, folder: Path, config: ModelConfig, how: OnnxComputeConfig) -> None:
        self.config = config
        self.mel_stats = torch.from_numpy(np.load(folder / folders.MEL_STATS))
        self.gpt = self
        self._folder, self._how = folder, how
        self._sessions: dict[str, Any] = {}

    @contextmanager
    def voice_encoder(self) -> Iterator["OnnxVoiceEncoder"]:
        """It listens itself."""
        yield self

    def conditioning_latents(self, mel: Tensor) -> Tensor:
        """Mel [batch, 80, frames] -> latents [batch, 32, width]."""
        return self._ran(folders.CONDITIONING, mel)

    def speaker_encoder(self, waveform: Tensor) -> Tensor:
        """Waveform [batch, samples] at 16 kHz -> [batch, 512, 1]."""
        return self._ran(folders.SPEAKER, speaker_mel(waveform))

    def _ran(self, name: str, mel: Tensor) -> Tensor:
        if name not in self._sessions:
            opened = sessions.open_session(self._folder / name, self._how.wish, self._how.options)
            self._sessions[name] = opened.session
        (found,) = self._sessions[name].run(None, {"mel": mel.numpy()})
        return torch.from_numpy(found)


def onnx_latents_of_recording(
    folder: Path,
    config: ModelConfig,
    how: OnnxComputeConfig,
    recording: Path,
    kept: Path | None = None,
) -> OnnxLatents:
    """The voice of a recording; kept: a folder of latents that were taken before, by weights and
    recording. Raises AudioError or VoiceError."""
    encoder = cast(Model, OnnxVoiceEncoder(folder, config, how))
    found = latents_file.latents_of_recording(
        encoder, folders.read(folder).weights, recording, kept
    )
    return OnnxLatents(found.latents.numpy(), found.speaker.numpy())
