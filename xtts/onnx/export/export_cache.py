"""ONNX exports that the service creates for itself, cached beside the latents.

Tracing takes gigabytes at full size and gives none back, so an export is a process of its own; of
several replicas one exports and the others wait.
"""

import contextlib
import logging
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from machine.process import ProcessResult, module_command, run_with_timeout
from machine.storage import locks
from machine.storage.atomic import make_folder
from xtts.onnx import folder as folders
from xtts.onnx.folder import OnnxError

log = logging.getLogger(__name__)

# As many as a run keeps epochs (KEEP_CHECKPOINTS), and the base: 0.7 GB each at XTTS-v2's size.
KEPT = 4
_EXPORT_SECONDS = 1800.0

Runs = Callable[[Sequence[str], float], ProcessResult]


def kept_export(
    exports: Path, source: Path, sha256: str, kind: str, checkpoint: Path | None = None,
    run: Runs = run_with_timeout, *, decoder: Path | None = None,
) -> Path:  # fmt: skip
    """The export of a model's folder, made where it is missing or damaged.

    checkpoint: whose learning part is spoken with, decoder: a learned one, None is the folder's
    own; sha256: of what is exported; kind: fp32 or int8. Raises OnnxError or WriteError.
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
        with contextlib.suppress(OSError):  # a folder that may only be read still speaks
            os.utime(to)
        _remove_others(exports)
    return to


def _export_apart(words: Sequence[str], run: Runs) -> None:
    """In a process of its own; what that one said last is why it failed."""
    done = run(module_command("xtts.onnx.export.exporter_child", *words), _EXPORT_SECONDS)
    if done.hung:
        raise OnnxError(
            f"{words[0]} was not exported as ONNX within {_EXPORT_SECONDS / 60:.0f} minutes. "
            "Export it on another machine (python -m train export --onnx) and name the folder."
        )
    if done.code != 0:
        reason = done.last_error or f"exit {done.code}"
        raise OnnxError(f"{words[0]} could not be exported as ONNX: {reason}")


def _whole(to: Path, kind: str) -> bool:
    if not folders.is_one(to):
        return False
    try:
        folders.verified(to, kind)
    except OnnxError as error:
        log.warning("%s It is exported again.", error)
        return False
    return True


def _remove_others(exports: Path) -> None:
    """All but the ones that were used last; and, as this process alone has the lock, what a killed
    export left."""
    candidates = [path for path in exports.iterdir() if path.is_dir()]
    whole = [path for path in candidates if folders.is_one(path) and not path.name.startswith(".")]
    newest = sorted(whole, key=lambda path: path.stat().st_mtime, reverse=True)[:KEPT]
    for path in candidates:
        if path not in newest:
            shutil.rmtree(path, ignore_errors=True)
