"""ONNX exports that the service made for itself, cached beside the latents.

Tracing takes gigabytes at full size and gives none back, so an export is a process of its own; of
several replicas one exports and the others wait.
"""

import contextlib
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from machine.storage import locks
from machine.storage.atomic import make_folder
from xtts.onnx import folder as folders
from xtts.onnx.folder import OnnxError

log = logging.getLogger(__name__)

# As many as a run keeps epochs (KEEP_CHECKPOINTS), and the base: 0.7 GB each at XTTS-v2's size.
KEPT = 4
_EXPORT_SECONDS = 1800.0


@dataclass(frozen=True)
class Needed:
    """What is to be spoken with. source: the model's folder; checkpoint: None is the folder's own
    learning part; sha256: of that part's file; kind: fp32 or int8."""

    source: Path
    sha256: str
    kind: str
    checkpoint: Path | None = None


def kept_export(exports: Path, needed: Needed, run: Callable[..., Any] = subprocess.run) -> Path:
    """The export, made where it is missing or damaged. Raises OnnxError or WriteError."""
    to = exports / f"{needed.sha256[:16]}-{needed.kind}"
    make_folder(exports)
    with locks.wait_for(exports / ".lock", lambda: log.info("Another process exports to ONNX.")):
        if not _whole(to, needed.kind):
            shutil.rmtree(to, ignore_errors=True)
            _export_apart(needed, to, run)
        with contextlib.suppress(OSError):  # a folder that may only be read still speaks
            os.utime(to)
        _remove_others(exports)
    return to


def _export_apart(needed: Needed, to: Path, run: Callable[..., Any]) -> None:
    """In a process of its own; what that one said last is why it failed."""
    words = [sys.executable, "-m", "xtts.onnx.export.exporter_child", str(needed.source), str(to)]
    words += ["--kinds", needed.kind]
    words += ["--checkpoint", str(needed.checkpoint)] if needed.checkpoint else []
    try:
        done = run(words, capture_output=True, text=True, timeout=_EXPORT_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise OnnxError(
            f"{needed.source} was not exported as ONNX within {_EXPORT_SECONDS / 60:.0f} minutes. "
            "Export it on another machine (python -m train export --onnx) and name the folder."
        ) from error
    if done.returncode:
        told = (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]
        raise OnnxError(f"{needed.source} could not be exported as ONNX: {told}")


def _whole(to: Path, kind: str) -> bool:
    if not folders.is_one(to):
        return False
    try:
        folders.verified(to, kind)
    except OnnxError as error:
        log.warning("%s It is made again.", error)
        return False
    return True


def _remove_others(exports: Path) -> None:
    """All but the ones that were used last; and, as nobody else is at it, what a killed export
    left."""
    found = [path for path in exports.iterdir() if path.is_dir()]
    whole = [path for path in found if folders.is_one(path) and not path.name.startswith(".")]
    newest = sorted(whole, key=lambda path: path.stat().st_mtime, reverse=True)[:KEPT]
    for path in found:
        if path not in newest:
            shutil.rmtree(path, ignore_errors=True)
