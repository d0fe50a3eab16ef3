"""The interface of ONNX voices for the core (`xtts.voices.formats`)."""

from pathlib import Path

from extras.onnx import folder as folders
from machine import commands
from machine.errors import SotaqueError
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.loaded_voice import LoadedVoice
from xtts.voices.voice_files import VoiceFiles

BACKEND = "onnx"
HEADER = folders.MANIFEST_FILE


def licence_of(folder: Path) -> str:
    """The licence of the voice in a folder. Raises OnnxError."""
    return folders.read(folder).licence


def load_voice(files: VoiceFiles, where: ComputeConfig) -> LoadedVoice:
    """Opens a voice with ONNX Runtime; other formats are exported first. Raises OnnxError, and the
    errors of `extras.common.onnxruntime.sessions`."""
    from extras.onnx.speech.onnx_voice import load_onnx_voice

    return load_onnx_voice(files, where)


def export(source: VoiceFiles, to: Path, kind: str) -> str:
    """Writes the folder and returns a short description of it.

    kind: a precision of the GPT, or `all`. Raises SotaqueError if a package is missing, and the
    errors of `exporter.export`.
    """
    try:
        from extras.onnx.export import exporter
    except ImportError as error:
        raise SotaqueError(
            f"ONNX export needs the package {error.name}, which is not installed. Install it with: "
            f"{commands.install_extra('onnx')}"
        ) from error
    voice = exporter.export(source, to, tuple(folders.GPT_FILES) if kind == "all" else (kind,))
    return f"{' and '.join(voice.kinds)}, opset {voice.opset}; licence: {voice.licence}"
