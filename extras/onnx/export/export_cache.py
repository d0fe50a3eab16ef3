"""Caches the ONNX exports that the service creates, in the folder of the latents.

Tracing takes gigabytes at full size and does not free them, so an export runs in a child process.
If there are several replicas, one exports and the others wait.
"""

import contextlib
import logging
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from extras.onnx import folder as folders
from extras.onnx.folder import OnnxError
from machine import commands
from machine.process import ProcessResult, module_command, run_with_timeout
from machine.storage import locks
from machine.storage.files import make_folder

log = logging.getLogger(__name__)

# A run keeps 3 epochs by default (KEEP_CHECKPOINTS), and there is the base. An export of XTTS-v2
# takes 0.7 GB.
MAX_EXPORTS = 4
_EXPORT_SECONDS = 1800.0

Runner = Callable[[Sequence[str], float], ProcessResult]


def cached_export(
    exports: Path,
    source: Path,
    sha256: str,
    kind: str,
    checkpoint: Path | None = None,
    run: Runner = run_with_timeout,
    *,
    decoder: Path | None = None,
) -> Path:
    """The folder of an export of a model folder, created if it is missing or damaged.

    Args:
        exports: The folder of all exports.
        source: The model folder.
        sha256: The hash of the exported weights.
        kind: fp32, int8 or int4.
        checkpoint: Replaces the GPT.
        run: Runs the child.
        decoder: A learned vocoder; None for the folder's.

    Raises OnnxError or WriteError.
    """
    folder = exports / f"{sha256[:16]}-{kind}"
    make_folder(exports)
    with locks.wait_for(exports / ".lock", lambda: log.info("Another process exports to ONNX.")):
        if not _is_usable(folder, kind):
            shutil.rmtree(folder, ignore_errors=True)
            _export_in_child(source, folder, kind, checkpoint, decoder, run)
        with contextlib.suppress(OSError):  # a read-only folder still works
            os.utime(folder)
        _remove_others(exports)
    return folder


def _export_in_child(
    source: Path, folder: Path, kind: str, checkpoint: Path | None, decoder: Path | None, run: Runner
) -> None:
    """Exports in a child process; if it fails, the last line of its stderr is the reason."""
    options = [str(source), str(folder), "--kinds", kind]
    for flag, path in (("--checkpoint", checkpoint), ("--decoder", decoder)):
        options += [flag, str(path)] if path else []
    result = run(module_command("extras.onnx.export.exporter_child", *options), _EXPORT_SECONDS)
    if result.hung:
        raise OnnxError(
            f"{source} was not exported as ONNX within {_EXPORT_SECONDS / 60:.0f} minutes. "
            f"Export it on another machine ({commands.program('train export --onnx')} …) and name "
            "the folder."
        )
    if result.code != 0:
        reason = result.last_error or f"exit {result.code}"
        raise OnnxError(f"{source} could not be exported as ONNX: {reason}")


def _is_usable(folder: Path, kind: str) -> bool:
    if not folders.is_export(folder):
        return False
    try:
        folders.verify(folder, kind)
    except OnnxError as error:
        log.warning("%s It will be exported again.", error)
        return False
    return True


def _remove_others(exports: Path) -> None:
    """Removes all but the most recently used exports, and the remains of killed ones. The caller
    holds the lock."""
    candidates = [path for path in exports.iterdir() if path.is_dir()]
    complete = [path for path in candidates if folders.is_export(path) and not path.name.startswith(".")]
    newest = sorted(complete, key=lambda path: path.stat().st_mtime, reverse=True)[:MAX_EXPORTS]
    for path in candidates:
        if path not in newest:
            shutil.rmtree(path, ignore_errors=True)
