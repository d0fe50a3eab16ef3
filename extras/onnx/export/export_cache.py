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

# The number of cached exports: that of a run's epochs (KEEP_CHECKPOINTS), and the base. Each has
# 0.7 GB at XTTS-v2's size.
KEPT = 4
_EXPORT_SECONDS = 1800.0

Runs = Callable[[Sequence[str], float], ProcessResult]


def kept_export(
    exports: Path,
    source: Path,
    sha256: str,
    kind: str,
    checkpoint: Path | None = None,
    run: Runs = run_with_timeout,
    *,
    decoder: Path | None = None,
) -> Path:
    """The folder of an export of a model folder, created if it is missing or damaged.

    checkpoint: replaces the GPT; decoder: a learned vocoder, None for the folder's; sha256: of the
    exported weights; kind: fp32, int8 or int4. Raises OnnxError or WriteError.
    """
    to = exports / f"{sha256[:16]}-{kind}"
    make_folder(exports)
    with locks.wait_for(exports / ".lock", lambda: log.info("Another process exports to ONNX.")):
        if not _whole(to, kind):
            shutil.rmtree(to, ignore_errors=True)
            words = [str(source), str(to), "--kinds", kind]
            for flag, path in (("--checkpoint", checkpoint), ("--decoder", decoder)):
                words += [flag, str(path)] if path else []
            _export_apart(words, run)
        with contextlib.suppress(OSError):  # a read-only folder still works
            os.utime(to)
        _remove_others(exports)
    return to


def _export_apart(words: Sequence[str], run: Runs) -> None:
    """Exports in a child process; if it fails, the last line of its stderr is the reason."""
    done = run(module_command("extras.onnx.export.exporter_child", *words), _EXPORT_SECONDS)
    if done.hung:
        raise OnnxError(
            f"{words[0]} was not exported as ONNX within {_EXPORT_SECONDS / 60:.0f} minutes. "
            f"Export it on another machine ({commands.program('train export --onnx')} …) and name "
            "the folder."
        )
    if done.code != 0:
        reason = done.last_error or f"exit {done.code}"
        raise OnnxError(f"{words[0]} could not be exported as ONNX: {reason}")


def _whole(to: Path, kind: str) -> bool:
    if not folders.is_one(to):
        return False
    try:
        folders.verify(to, kind)
    except OnnxError as error:
        log.warning("%s It will be exported again.", error)
        return False
    return True


def _remove_others(exports: Path) -> None:
    """Removes all but the most recently used exports, and the remains of killed ones. The caller
    holds the lock."""
    candidates = [path for path in exports.iterdir() if path.is_dir()]
    whole = [path for path in candidates if folders.is_one(path) and not path.name.startswith(".")]
    newest = sorted(whole, key=lambda path: path.stat().st_mtime, reverse=True)[:KEPT]
    for path in candidates:
        if path not in newest:
            shutil.rmtree(path, ignore_errors=True)
