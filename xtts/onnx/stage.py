"""Which ONNX voice stands ready in the speaking child; as `xtts.stage` for torch.

A voice that is no ONNX folder becomes one first, in a process of its own and once: the folder is
kept beside the latents, by the SHA-256 of the weights.
"""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xtts import bundle
from xtts.atomic import sha256_of
from xtts.bases import DEMO, BundleError, base_of, locate_base
from xtts.config import ModelConfig
from xtts.onnx import command, hearing, model
from xtts.onnx import folder as folders
from xtts.onnx.crowd import OnnxCrowd
from xtts.onnx.folder import OnnxError
from xtts.onnx.model import Computing, OnnxModel
from xtts.onnx.speech import OnnxLatents

_EXPORT_SECONDS = 1800.0


@dataclass(frozen=True)
class OnnxStanding:
    """A voice that can speak; as `xtts.stage.Standing`."""

    model: OnnxModel
    own: OnnxLatents | None
    weights: str
    folder: Path
    licence: str
    how: Computing

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

    def crowd(self, count: int) -> OnnxCrowd:
        """A place for so many to speak at once."""
        return OnnxCrowd(self.model, count)

    def voice_of(self, recording: Path, kept: Path | None) -> OnnxLatents:
        """The voice of an uploaded recording. Raises AudioError or VoiceError."""
        return hearing.of_recording(self.folder, self.model.config, self.how, recording, kept)


@dataclass(frozen=True)
class Asked:
    """What is wanted of a voice: how to compute, and where exports may be kept."""

    precision: str = "auto"
    device: str = "cpu"
    low_memory: bool = False
    threads: int | None = None
    exports: Path | None = None


def stand(
    name: str, base: str | None, asked: Asked, *, xtts_v2: str, tos_agreed: bool
) -> OnnxStanding:
    """Opens a voice: an ONNX folder, or what has to be exported first.

    Raises what `xtts.stage.stand` does, OnnxError, and the errors of `xtts.sessions`.
    """
    path = DEMO if name == "demo" else Path(name).expanduser()
    folder = path if folders.is_one(path) else _exported(path, base, asked, xtts_v2, tos_agreed)
    said = folders.verified(folder)
    config = ModelConfig.read(folder)
    how = command.computing(
        said, config, precision=asked.precision, device=asked.device, low=asked.low_memory,
        threads=asked.threads,
    )  # fmt: skip
    loaded = model.load(folder, how, verify=False)
    stored = folder / folders.VOICE
    own = model.read_voice(stored, config) if stored.is_file() else None
    return OnnxStanding(loaded, own, said.weights, folder, said.licence, how)


def _exported(path: Path, base: str | None, asked: Asked, xtts_v2: str, tos_agreed: bool) -> Path:
    """The ONNX folder of a voice in Coqui's layout or of a checkpoint, made where it is missing."""
    if asked.exports is None:
        raise OnnxError(f"{path} is no ONNX voice, and there is nowhere to keep an export of it.")
    if path.is_dir():
        sha256, weights, source = _checked_folder(path, xtts_v2, tos_agreed), None, path
    elif path.is_file():
        from xtts.runs import read_checkpoint

        found = read_checkpoint(path)
        source = base_of(path, found.provenance, Path(base) if base else None, Path(xtts_v2))
        sha256, weights = sha256_of(path), path
    else:
        raise BundleError(
            f"There is no voice at {path}. Allowed are demo, the folder of a bundle, an ONNX "
            "folder, or a checkpoint_epoch_N.pt out of OUTPUT_DIR/checkpoints."
        )
    to = asked.exports / sha256[:16]
    if not folders.is_one(to):
        _export_apart(source, weights, to)
    return to


def _checked_folder(path: Path, xtts_v2: str, tos_agreed: bool) -> str:
    if (path / "bundle.json").is_file():
        if fault := bundle.verify(path):
            raise BundleError(f"{fault} Export or copy the voice again.")
    elif path != DEMO:
        locate_base(str(path), tos_agreed=tos_agreed)
    return sha256_of(path / "model.pth")


def _export_apart(
    source: Path, weights: Path | None, to: Path, run: Callable[..., Any] = subprocess.run
) -> None:
    """In a process of its own: tracing takes gigabytes at full size, and gives none back."""
    words = [sys.executable, "-m", "xtts.onnx.export_child", str(source), str(to)]
    done = run(
        [*words, str(weights)] if weights else words, capture_output=True, text=True,
        timeout=_EXPORT_SECONDS, check=False,
    )  # fmt: skip
    if done.returncode:
        told = (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]
        raise OnnxError(f"{source} could not be exported as ONNX: {told}")
