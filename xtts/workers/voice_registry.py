"""Opens a voice by name, folder or checkpoint, and keeps it loaded.

A checkpoint of a base that is loaded already takes only the learning part: the old voice and the
new one share vocoder, speaker encoder and tokenizer, and both can speak until the old one is done.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from machine.storage.atomic import sha256_of
from xtts.hub import bundle
from xtts.hub.base_models import DEMO, BundleError, base_of, locate_base
from xtts.inference import latents_file, voice
from xtts.inference.batching import ContinuousBatcher
from xtts.inference.voice import Voice
from xtts.model import low_memory as lean
from xtts.model.loading import Model, load_model


@dataclass(frozen=True)
class ComputeConfig:
    """Where and with what a voice computes, and where what it may keep is kept."""

    device: str = "cpu"
    mel_device: str = "cpu"
    precision: str = "auto"
    latents_folder: Path | None = None
    backend: str = "torch"
    low_memory: bool = False
    threads: int | None = None


@dataclass(frozen=True)
class VoiceSpec:
    """A voice on disk. name: `demo`, a folder or a checkpoint; base: the folder of a checkpoint's
    base model where it has moved; xtts_v2: where XTTS-v2 lies; tos_agreed: its licence was."""

    name: str
    base: str | None = None
    xtts_v2: str = "train/xtts_v2"
    tos_agreed: bool = False


@dataclass(frozen=True)
class LoadedVoice:
    """A voice that can speak. own: of its own recording, None without one; weights: SHA-256 of the
    learning part's file; folder: its base."""

    model: Model
    own: Voice | None
    weights: str
    folder: Path
    licence: str

    def told(self) -> dict[str, Any]:
        """What its parent needs to know."""
        return {
            "licence": self.licence,
            "languages": list(self.model.config.languages),
            "sha256": self.weights,
            "own_voice": self.own is not None,
            "precision": self.model.kind,
        }

    def crowd(self, count: int) -> ContinuousBatcher:
        """A place for so many to speak at once."""
        return ContinuousBatcher(self.model, count)

    def nobody(self) -> Voice:
        """Who says the service's own word where there is no recording."""
        return voice.neutral_voice(self.model)

    def voice_of(self, recording: Path, kept: Path | None) -> Voice:
        """The voice of an uploaded recording. Raises AudioError or VoiceError."""
        return latents_file.latents_of_recording(self.model, self.weights, recording, kept)


def load_voice(
    wanted: VoiceSpec, where: ComputeConfig, others: Mapping[str, LoadedVoice]
) -> LoadedVoice | Any:
    """Opens a voice. others: those that stand already.

    Raises BundleError, ConfigError, RunError, FilesError, AudioError or VoiceError.
    """
    if where.backend == "onnx":
        return _of_onnx(wanted, where)
    path = DEMO if wanted.name == "demo" else Path(wanted.name).expanduser()
    if path.is_dir():
        return _of_folder(path, wanted, where)
    if path.is_file():
        return _of_checkpoint(path, wanted, where, others)
    raise BundleError(
        f"There is no voice at {wanted.name}. Allowed are demo, the folder of a bundle, or a "
        "checkpoint_epoch_N.pt out of OUTPUT_DIR/checkpoints."
    )


def _of_onnx(wanted: VoiceSpec, where: ComputeConfig) -> Any:
    from xtts.onnx.speech import voice_registry

    exports = where.latents_folder.parent / "onnx" if where.latents_folder else None
    asked = voice_registry.OnnxVoiceSpec(
        where.precision, where.device, where.low_memory, where.threads, exports
    )
    return voice_registry.load_onnx_voice(
        wanted.name, wanted.base, asked, xtts_v2=wanted.xtts_v2, tos_agreed=wanted.tos_agreed
    )


def _of_folder(folder: Path, wanted: VoiceSpec, where: ComputeConfig) -> LoadedVoice:
    licence = None
    if (folder / "onnx.json").is_file():
        raise BundleError(f"{folder} is an ONNX voice; BACKEND=onnx speaks with it.")
    if (folder / "bundle.json").is_file():
        if fault := bundle.verify(folder):
            raise BundleError(f"{fault} Export or copy the voice again.")
        licence = bundle.read(folder).licence
    elif folder != DEMO:
        locate_base(str(folder), tos_agreed=wanted.tos_agreed)
    model = _loaded(folder, where)
    weights = sha256_of(folder / "model.pth")
    reference = folder / "reference.wav"
    return _standing(model, weights, folder, licence, reference, where)


def _of_checkpoint(
    path: Path, wanted: VoiceSpec, where: ComputeConfig, others: Mapping[str, LoadedVoice]
) -> LoadedVoice:
    from xtts.hub.run_folder import read_checkpoint, reference_beside

    checkpoint = read_checkpoint(path)
    base = Path(wanted.base) if wanted.base else None
    folder = base_of(path, checkpoint.provenance, base, Path(wanted.xtts_v2))
    same = next((one.model for one in others.values() if one.folder == folder), None)
    model = replace(same) if same else _loaded(folder, where)
    model.load_gpt(checkpoint.model)
    weights = sha256_of(path)
    # Without any (SAMPLE_DEVICE=off) the base's own, where it has one: better than no word at all.
    reference = reference_beside(path) or folder / "reference.wav"
    return _standing(model, weights, folder, None, reference, where)


def _loaded(folder: Path, where: ComputeConfig) -> Model:
    loading = lean.load_low_memory if where.low_memory else load_model
    found = loading(folder, where.device, where.mel_device, precision=where.precision)
    found.warm_up()
    return found


def _standing(
    model: Model,
    weights: str,
    folder: Path,
    licence: str | None,
    reference: Path | None,
    where: ComputeConfig,
) -> LoadedVoice:
    own = None
    if reference is not None and reference.is_file():
        own = latents_file.latents_of_recording(model, weights, reference, where.latents_folder)
    return LoadedVoice(model, own, weights, folder, licence or model.config.licence)
