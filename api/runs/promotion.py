"""Stores the promotion of an epoch or a blend in VOICES_DIR, which replicas share.

The trainer prunes epochs without asking the service, and containers mount OUTPUT_DIR read-only, so
the promoted files are kept here: as hard links if possible, which take no space until the trainer
prunes, else as copies.
"""

import contextlib
import os
import shutil
from dataclasses import asdict
from pathlib import Path

from api import shared_folder
from api.errors import APIError
from machine.storage.files import make_folder, replace_file, require_space, write_json
from xtts.voices.learned_decoder import decoder_beside
from xtts.voices.promoted import Promotion, promoted_run, promotion_path, read, stored_checkpoint, stored_path
from xtts.voices.run_folder import manifest_beside, reference_beside

__all__ = ["Promotion", "read", "store", "stored_checkpoint"]


def store(folder: Path, promotion: Promotion | None, checkpoint: Path | None = None) -> None:
    """Replaces the stored promotion and its checkpoint; None only removes them.

    Raises APIError (507) if the folder cannot be written or the disk is full.
    """
    try:
        with shared_folder.changing(folder):
            if promotion is None:
                promotion_path(folder).unlink(missing_ok=True)
            else:
                write_json(promotion_path(folder), asdict(promotion))
            # The old files go first: there may be no room for both.
            for path in (folder / "promoted").glob("*"):
                if promotion is None or path.name != promotion.sha256:
                    shutil.rmtree(path, ignore_errors=True)
            if promotion and checkpoint and stored_checkpoint(folder, promotion) is None:
                _store_files(folder, promotion, checkpoint)
    except APIError as error:
        if promotion is None:
            text = f"The promotion may be served again after a restart. {error.detail}"
        else:
            text = (
                f"{promotion.name} is served from now on, but its copy could not be kept. It may end with "
                f"a restart, or when the trainer deletes its epoch. {error.detail}"
            )
        raise APIError(507, error.code, text) from error


def _store_files(folder: Path, promotion: Promotion, checkpoint: Path) -> None:
    run, weights = promoted_run(folder, promotion), stored_path(folder, promotion)
    # The checkpoint comes last: if it is there, the copy is complete.
    copies = {manifest_beside(checkpoint): manifest_beside(weights)}
    if (reference := reference_beside(checkpoint)) is not None:
        prefix = f"epoch_{promotion.epoch}" if promotion.share == 1 else "best"
        copies[reference] = run.samples / f"{prefix}_reference.wav"
    if (decoder := decoder_beside(checkpoint)) is not None:
        copies[decoder] = run.best_decoder
        copies[manifest_beside(decoder)] = manifest_beside(run.best_decoder)
    copies[checkpoint] = weights
    for part in (run.checkpoints, run.samples):
        make_folder(part)
    for source, target in copies.items():
        _link_or_copy(source, target)


def _link_or_copy(source: Path, target: Path) -> None:
    """Hard-links or copies a file. A link keeps its content, because the trainer replaces files and
    never changes them."""
    with contextlib.suppress(OSError):  # another file system, or one without hard links
        target.unlink(missing_ok=True)
        os.link(source, target)
        return
    with source.open("rb") as file:
        require_space(target.parent, source.stat().st_size, target.name)
        replace_file(target, lambda copy: shutil.copyfileobj(file, copy, 1 << 20))
