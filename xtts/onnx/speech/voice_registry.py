"""Which ONNX voice stands ready in the speaking child; as `xtts.workers.voice_registry` for torch.

A voice that is no ONNX folder becomes one first, once (`xtts.onnx.export.export_cache`).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from machine.storage.atomic import sha256_of
from xtts.hub import bundle
from xtts.hub.base_models import DEMO, BundleError, base_of, locate_base
from xtts.model.conditioning import NUM_LATENTS
from xtts.model.config import ModelConfig
from xtts.onnx import folder as folders
from xtts.onnx.export import export_cache as exports
from xtts.onnx.folder import OnnxError
from xtts.onnx.speech import command, conditioning
from xtts.onnx.speech import loading as model
from xtts.onnx.speech.batching import OnnxContinuousBatcher
from xtts.onnx.speech.loading import OnnxComputeConfig, OnnxLatents, OnnxModel


@dataclass(frozen=True)
class LoadedOnnxVoice:
    """A voice that can speak; as `xtts.workers.voice_registry.LoadedVoice`."""

    model: OnnxModel
    own: OnnxLatents | None
    folder: Path
    how: OnnxComputeConfig

    @property
    def weights(self) -> str:
        """SHA-256 of the learning part's file."""
        return self.model.voice.weights

    @property
    def licence(self) -> str:
        """Of the weights that it was made from."""
        return self.model.voice.licence

    def told(self) -> dict[str, Any]:
        """What its parent needs to know."""
        return {
            "licence": self.licence,
            "languages": list(self.model.config.languages),
            "sha256": self.weights,
            "own_voice": self.own is not None,
            "precision": self.model.kind,
            "placed": self.model.status.as_dict(),
        }

    def crowd(self, count: int) -> OnnxContinuousBatcher:
        """A place for so many to speak at once."""
        return OnnxContinuousBatcher(self.model, count)

    def nobody(self) -> OnnxLatents:
        """As `xtts.workers.voice_registry.LoadedVoice.nobody`."""
        config = self.model.config
        latents = np.zeros((1, NUM_LATENTS, config.gpt.width), np.float32)
        speaker = np.zeros((1, config.speaker_encoder.embedding_width, 1), np.float32)
        return OnnxLatents(latents, speaker)

    def voice_of(self, recording: Path, kept: Path | None) -> OnnxLatents:
        """The voice of an uploaded recording. Raises AudioError or VoiceError."""
        return conditioning.onnx_latents_of_recording(
            self.folder, self.model.config, self.how, recording, kept
        )


@dataclass(frozen=True)
class OnnxVoiceSpec:
    """What is wanted of a voice: how to compute, and where exports may be kept."""

    precision: str = "auto"
    device: str = "cpu"
    low_memory: bool = False
    threads: int | None = None
    exports: Path | None = None


def load_onnx_voice(
    name: str, base: str | None, asked: OnnxVoiceSpec, *, xtts_v2: str, tos_agreed: bool
) -> LoadedOnnxVoice:
    """Opens a voice: an ONNX folder, or what has to be exported first.

    Raises what `xtts.workers.voice_registry.load_voice` does, OnnxError, and the errors of
    `machine.onnxruntime.sessions`.
    """
    path = DEMO if name == "demo" else Path(name).expanduser()
    folder = path if folders.is_one(path) else _exported(path, base, asked, xtts_v2, tos_agreed)
    config = ModelConfig.read(folder)
    how = command.computing(
        folders.read(folder), config, precision=asked.precision, device=asked.device,
        low=asked.low_memory, threads=asked.threads,
    )  # fmt: skip
    loaded = model.load_onnx_model(folder, how)
    stored = folder / folders.VOICE
    own = model.read_voice(stored, config) if stored.is_file() else None
    return LoadedOnnxVoice(loaded, own, folder, how)


def _exported(
    path: Path, base: str | None, asked: OnnxVoiceSpec, xtts_v2: str, tos_agreed: bool
) -> Path:
    """The ONNX folder of a voice in Coqui's layout or of a checkpoint, made where it is missing."""
    if asked.exports is None:
        raise OnnxError(f"{path} is no ONNX voice, and there is nowhere to keep an export of it.")
    if path.is_dir():
        sha256, weights, source = _checked_folder(path, xtts_v2, tos_agreed), None, path
    elif path.is_file():
        from xtts.hub.run_folder import read_checkpoint

        found = read_checkpoint(path)
        source = base_of(path, found.provenance, Path(base) if base else None, Path(xtts_v2))
        sha256, weights = sha256_of(path), path
    else:
        raise BundleError(
            f"There is no voice at {path}. Allowed are demo, the folder of a bundle, an ONNX "
            "folder, or a checkpoint_epoch_N.pt out of OUTPUT_DIR/checkpoints."
        )
    width = ModelConfig.read(source).gpt.width
    kind = command.kind_of(asked.precision, width, low=asked.low_memory)
    return exports.kept_export(asked.exports, exports.Needed(source, sha256, kind, weights))


def _checked_folder(path: Path, xtts_v2: str, tos_agreed: bool) -> str:
    if (path / "bundle.json").is_file():
        if fault := bundle.verify(path):
            raise BundleError(f"{fault} Export or copy the voice again.")
    elif path != DEMO:
        locate_base(str(path), tos_agreed=tos_agreed)
    return sha256_of(path / "model.pth")
