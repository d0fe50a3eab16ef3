"""The promoted epoch or blend, as the service stores it in VOICES_DIR.

VOICES_DIR/promotion.json           {run, epoch, sha256, share}; written last
VOICES_DIR/promoted/<sha256>/…      its checkpoint, manifest, reference and learned
                                    decoder, as in a run folder
"""

import contextlib
import re
from dataclasses import dataclass
from pathlib import Path

from machine.storage.files import read_json
from xtts.voices.run_folder import RunFolder

_SHA256 = re.compile(r"^[0-9a-f]{64}$")


@dataclass(frozen=True)
class Promotion:
    """The content of promotion.json. run: the run's id; sha256: the checkpoint's hash, by which it is
    found if the run has moved; share: the epoch's share of a blend, 1 for the epoch itself."""

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
    content = read_json(promotion_path(folder))
    with contextlib.suppress(ValueError, KeyError, TypeError):
        if _SHA256.match(sha256 := str(content["sha256"])):
            share = float(content.get("share", 1.0))
            return Promotion(str(content["run"]), int(content["epoch"]), sha256, share)
    return None


def stored_checkpoint(folder: Path, promotion: Promotion) -> Path | None:
    """The stored copy of its checkpoint; None if there is none."""
    path = stored_path(folder, promotion)
    return path if path.is_file() else None


def promoted_run(folder: Path, promotion: Promotion) -> RunFolder:
    """The folder with the promoted files."""
    return RunFolder(folder / "promoted" / promotion.sha256)


def stored_path(folder: Path, promotion: Promotion) -> Path:
    """The path of the copy of its checkpoint, which need not exist."""
    run = promoted_run(folder, promotion)
    return run.checkpoint_path(promotion.epoch) if promotion.share == 1 else run.best_blend


def promotion_path(folder: Path) -> Path:
    """The path of promotion.json."""
    return folder / "promotion.json"
