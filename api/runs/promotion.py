"""The promotion of an epoch or a blend, stored in VOICES_DIR and shared by replicas.

    VOICES_DIR/promotion.json           {run, epoch, sha256, share}; written last
    VOICES_DIR/promoted/<sha256>/…      its checkpoint, manifest, reference and learned
                                        decoder, as in a run folder

The trainer prunes epochs without asking the service, and containers mount OUTPUT_DIR read-only, so
the promoted files are kept here: as hard links if possible, which take no space until the trainer
prunes, else as copies.
"""

import contextlib
import os
import re
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from api import shared_folder
from api.errors import APIError
from machine.storage.atomic import make_folder, replace_file, require_space, write_json
from machine.storage.reading import read_json
from xtts.voices.learned_decoder import decoder_beside
from xtts.voices.run_folder import RunFolder, manifest_beside, reference_beside

_SHA256 = re.compile(r"^[0-9a-f]{64}$")


@dataclass(frozen=True)
class Promotion:
    """run: the run's id; sha256: the checkpoint's, by which it is found if the run has moved;
    share: the epoch's share of a blend, 1 for the epoch itself."""

    run: str
    epoch: int
    sha256: str
    share: float = 1.0

    @property
    def name(self) -> str:
        """The name at the beginning of a sentence."""
        return f"Epoch {self.epoch}" + (f" at {self.share:.0%}" if self.share != 1 else "")


def read(folder: Path) -> Promotion | None:
    """The stored promotion; None if there is none, or the file is damaged."""
    content = read_json(_file(folder))
    with contextlib.suppress(ValueError, KeyError, TypeError):
        if _SHA256.match(sha256 := str(content["sha256"])):
            share = float(content.get("share", 1.0))
            return Promotion(str(content["run"]), int(content["epoch"]), sha256, share)
    return None


def kept(folder: Path, promotion: Promotion) -> Path | None:
    """The stored copy of its checkpoint; None if there is none."""
    path = _weights(folder, promotion)
    return path if path.is_file() else None


def keep(folder: Path, promotion: Promotion | None, checkpoint: Path | None = None) -> None:
    """Replaces the stored promotion and its checkpoint; None only removes them.

    Raises APIError (507) if the folder cannot be written or the disk is full.
    """
    try:
        with shared_folder.changing(folder):
            if promotion is None:
                _file(folder).unlink(missing_ok=True)
            else:
                write_json(_file(folder), asdict(promotion))
            # The old files go first: there may be no room for both.
            for path in (folder / "promoted").glob("*"):
                if promotion is None or path.name != promotion.sha256:
                    shutil.rmtree(path, ignore_errors=True)
            if promotion and checkpoint and kept(folder, promotion) is None:
                _keep_files(folder, promotion, checkpoint)
    except APIError as error:
        text = f"It may end with a restart, or when the trainer deletes its epoch. {error.detail}"
        raise APIError(507, error.code, text) from error


def _keep_files(folder: Path, promotion: Promotion, checkpoint: Path) -> None:
    run, wanted = _run(folder, promotion), _weights(folder, promotion)
    # The checkpoint comes last: if it is there, the copy is complete.
    copies = {manifest_beside(checkpoint): manifest_beside(wanted)}
    if (reference := reference_beside(checkpoint)) is not None:
        whose = f"epoch_{promotion.epoch}" if promotion.share == 1 else "best"
        copies[reference] = run.samples / f"{whose}_reference.wav"
    if (decoder := decoder_beside(checkpoint)) is not None:
        copies[decoder] = run.best_decoder
        copies[manifest_beside(decoder)] = manifest_beside(run.best_decoder)
    copies[checkpoint] = wanted
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


def _run(folder: Path, promotion: Promotion) -> RunFolder:
    return RunFolder(folder / "promoted" / promotion.sha256)


def _weights(folder: Path, promotion: Promotion) -> Path:
    run = _run(folder, promotion)
    return run.checkpoint_path(promotion.epoch) if promotion.share == 1 else run.best_blend


def _file(folder: Path) -> Path:
    return folder / "promotion.json"
