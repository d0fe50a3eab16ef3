"""Encodes recordings with the ONNX conditioning and speaker graphs, in a child process.

torch computes the mels, and a process that has imported it keeps 0.25 GB. Speaking needs neither
torch nor the sessions of these graphs (0.22 GB at XTTS-v2's size), so the child ends after each
request.
"""

import json
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from extras.common.answers import ask_once
from extras.common.onnxruntime import sessions
from extras.common.onnxruntime.sessions import OnnxSessionOptions
from extras.onnx import folder as folders
from extras.onnx.folder import OnnxError
from extras.onnx.speech import loading
from extras.onnx.speech.loading import OnnxModel
from machine.errors import SotaqueError
from machine.process import module_command, reserve_stdout, write_json_line
from machine.storage.checksums import sha256_of
from xtts.inference import latents_file
from xtts.inference.speech import Voice
from xtts.joined_reference import Reference
from xtts.model.config import ModelConfig

if TYPE_CHECKING:
    from torch import Tensor

    from extras.common.onnxruntime.types import Session
    from xtts.model.loading import Model

# A limit for imports and sessions of a large model, on a machine that is busy with starting.
_MAX_ENCODING_SECONDS = 300.0


@dataclass(frozen=True)
class EncodingRequest:
    """What the child encodes.

    Attributes:
        folder, weights, provider, options: Those of the ONNX model.
        recordings: The recordings of one voice.
        cache: The folder that caches latents, or None.
        to: The file for the latents.
    """

    folder: str
    weights: str
    provider: str
    options: OnnxSessionOptions
    recordings: Sequence[str]
    cache: str | None
    to: str


def voice_of_recording(model: OnnxModel, recording: Reference, cache: Path | None = None) -> Voice:
    """The latents of one or several recordings. cache: a folder that caches them by weights and
    recording. Raises OnnxError, also for an unusable recording."""
    if cache is not None and isinstance(recording, Path) and recording.is_file():
        cached = latents_file.path_of(cache, model.voice.weights, sha256_of(recording))
        with suppress(OnnxError):  # if it is missing or damaged, the child writes it
            return loading.read_voice(cached, model.config)
    recordings = [recording] if isinstance(recording, Path) else recording
    with tempfile.TemporaryDirectory() as name:
        to = Path(name) / "voice.safetensors"
        request = EncodingRequest(
            str(model.folder),
            model.voice.weights,
            model.provider,
            model.options,
            [str(path) for path in recordings],
            None if cache is None else str(cache),
            str(to),
        )
        reply = ask_once(module_command(__name__), _MAX_ENCODING_SECONDS, request=asdict(request))
        if reply.answer is None:
            raise OnnxError(f"The recording could not be encoded: {reply.last_error}.")
        if refused := reply.answer.get("refused"):
            raise OnnxError(refused)
        return loading.read_voice(to, model.config)


class OnnxVoiceEncoder:
    """Replaces `xtts.model.loading.Model` for encoding recordings (`xtts.inference.voice`)."""

    def __init__(self, folder: Path, provider: str, options: OnnxSessionOptions) -> None:
        import torch

        self.device = torch.device("cpu")
        self.config = ModelConfig.read(folder)
        self.mel_stats = torch.from_numpy(np.load(folder / folders.MEL_STATS_FILE))
        self.gpt = self
        self._folder, self._provider, self._options = folder, provider, options
        self._sessions: dict[str, Session] = {}

    def listening(self) -> AbstractContextManager[None]:
        """As in `Model`; nothing to release."""
        return nullcontext()

    def conditioning_latents(self, mel: "Tensor") -> "Tensor":
        """Mel [batch, 80, frames] -> latents [batch, 32, width]."""
        return self._run(folders.CONDITIONING_FILE, mel)

    def speaker_encoder(self, waveform: "Tensor") -> "Tensor":
        """Waveform [batch, samples] at 16 kHz -> [batch, 512, 1]."""
        from xtts.audio import speaker_mel

        return self._run(folders.SPEAKER_FILE, speaker_mel(waveform))

    def _run(self, name: str, mel: "Tensor") -> "Tensor":
        import torch

        if name not in self._sessions:
            opened = sessions.open_session(self._folder / name, self._provider, self._options)
            self._sessions[name] = opened.session
        (output,) = self._sessions[name].run(None, {"mel": mel.numpy()})
        return torch.from_numpy(output)


def main() -> None:
    """Runs one request of `voice_of_recording`, which reads the latents from a file."""
    answers = reserve_stdout()
    fields = json.load(sys.stdin)
    options = OnnxSessionOptions(**fields.pop("options"))
    try:
        _encode(EncodingRequest(**fields, options=options))
    except SotaqueError as error:
        write_json_line(answers, {"refused": str(error)})
    else:
        write_json_line(answers, {"refused": None})


def _encode(request: EncodingRequest) -> None:
    encoder = OnnxVoiceEncoder(Path(request.folder), request.provider, request.options)
    paths = tuple(map(Path, request.recordings))
    cache = None if request.cache is None else Path(request.cache)
    latents = latents_file.latents_of_recording(
        cast("Model", encoder), request.weights, paths if len(paths) > 1 else paths[0], cache
    )
    latents_file.write(Path(request.to), latents)


if __name__ == "__main__":
    main()
