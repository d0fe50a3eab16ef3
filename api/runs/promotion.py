"""The promotion of an epoch or a blend, stored in VOICES_DIR and shared by replicas.

    VOICES_DIR/promotion.json           {run, epoch, sha256, share}; written last
    VOICES_DIR/promoted/<sha256>/…      its checkpoint, manifest, reference and learned
                                        decoder, as in a run folder

The trainer prunes epochs without asking the service, and containers mount OUTPUT_DIR read-only, so
the promoted files are kept here: as hard links if possible, which take no space until the trainer
prunes, else as copies.
"""

import contextlib
import logging
import os
import re
import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from api.errors import APIError, without_paths
from machine.storage.atomic import WriteError, make_folder, replace_file, require_space, write_json
from machine.storage.reading import read_json
from xtts.voices.learned_decoder import decoder_beside
from xtts.voices.run_folder import RunFolder, manifest_beside, reference_beside

log = logging.getLogger("api")

# Files that another replica stored within this time are not deleted.
_OTHERS_SECONDS = 3600.0
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
    before = read(folder)
    try:
        make_folder(folder)
        if promotion is None:
            _file(folder).unlink(missing_ok=True)
        else:
            write_json(_file(folder), asdict(promotion))
    except (OSError, WriteError) as error:
        text = f"It is served until a restart; saving it failed: {without_paths(str(error))}"
        raise APIError(507, "not_kept", text) from error
    # The old files go first: there may be no room for both.
    _forget(folder, before, promotion)
    if promotion is not None and checkpoint is not None:
        _keep_files(folder, promotion, checkpoint)


def _keep_files(folder: Path, promotion: Promotion, checkpoint: Path) -> None:
    run, wanted = _run(folder, promotion), _weights(folder, promotion)
    if wanted.is_file():
        return
    # The checkpoint comes last: if it is there, the copy is complete.
    copies = {manifest_beside(checkpoint): manifest_beside(wanted)}
    if (reference := reference_beside(checkpoint)) is not None:
        whose = f"epoch_{promotion.epoch}" if promotion.share == 1 else "best"
        copies[reference] = run.samples / f"{whose}_reference.wav"
    if (decoder := decoder_beside(checkpoint)) is not None:
        copies[decoder] = run.best_decoder
        copies[manifest_beside(decoder)] = manifest_beside(run.best_decoder)
    copies[checkpoint] = wanted
    try:
        for part in (run.checkpoints, run.samples):
            make_folder(part)
        for source, target in copies.items():
            _link_or_copy(source, target)
    except (OSError, WriteError) as error:
        text = (
            "It is served only as long as the trainer keeps its checkpoint, because that could not "
            f"be copied: {without_paths(str(error))}"
        )
        raise APIError(507, "not_kept", text) from error


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


def _forget(folder: Path, before: Promotion | None, now: Promotion | None) -> None:
    """Removes the files of the previous promotion, and old ones that replicas have left."""
    for path in (folder / "promoted").glob("*"):
        with contextlib.suppress(OSError):
            left = before is not None and path.name == before.sha256
            old = left or time.time() - path.stat().st_mtime > _OTHERS_SECONDS
            if old and (now is None or path.name != now.sha256):
                shutil.rmtree(path)
                log.info("Removed %s, which is no longer promoted.", path.name[:12])


def _run(folder: Path, promotion: Promotion) -> RunFolder:
    return RunFolder(folder / "promoted" / promotion.sha256)


def _weights(folder: Path, promotion: Promotion) -> Path:
    run = _run(folder, promotion)
    return run.checkpoint_path(promotion.epoch) if promotion.share == 1 else run.best_blend


def _file(folder: Path) -> Path:
    return folder / "promotion.json"
