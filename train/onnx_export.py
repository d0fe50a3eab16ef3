"""`python -m train export --onnx`: a checkpoint as an ONNX voice."""

import logging
from pathlib import Path

from machine.errors import SotaqueError
from train.export import refuse_earlier, voice_to_export
from train.settings import TrainSettings
from xtts.onnx.folder import NAME as ONNX_NAME

log = logging.getLogger("train")

KINDS = {"all": ("fp32", "int8"), "fp32": ("fp32",), "int8": ("int8",)}


def run(
    settings: TrainSettings,
    kinds: str,
    *,
    checkpoint: Path | None,
    to: Path,
    base: Path | None,
    force: bool = False,
) -> int:
    """Finds the voice, exports it, tells where. Raises what `xtts.onnx.export.exporter`
    does, and ExportError where `to` holds a voice already and `force` is not said."""
    refuse_earlier(to, ONNX_NAME, force=force)
    try:
        from xtts.onnx.export import exporter
    except ImportError as error:
        raise SotaqueError(
            f"An export as ONNX needs the package {error.name}, which is not installed: "
            ".venv/bin/uv pip install -e '.[onnx]'"
        ) from error
    found = voice_to_export(settings, checkpoint, base)
    voice = exporter.export(found, to, KINDS[kinds])
    log.info(
        "%s holds the ONNX voice (%s, opset %d; licence: %s). It speaks with:\n"
        "  python -m xtts speak --voice %s --text … --out FILE.wav",
        to, " and ".join(voice.kinds), voice.opset, voice.licence, to,
    )  # fmt: skip
    return 0
