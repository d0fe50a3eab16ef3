"""Which epoch was promoted: a file in VOICES_DIR, so that it outlives this process and replicas
share it."""

import contextlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from api.errors import Refusal, without_paths
from xtts.atomic import WriteError, make_folder, write_json


@dataclass(frozen=True)
class Promotion:
    """run: where it was; sha256: of its checkpoint, by which it is found when the run has moved."""

    run: str
    epoch: int
    sha256: str


def read(folder: Path) -> Promotion | None:
    """None where none was, or the file is damaged."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        found = json.loads(_file(folder).read_text(encoding="utf-8"))
        return Promotion(str(found["run"]), int(found["epoch"]), str(found["sha256"]))
    return None


def keep(folder: Path, promotion: Promotion | None) -> None:
    """Raises Refusal (507) where the folder cannot be written."""
    try:
        make_folder(folder)
        if promotion is None:
            _file(folder).unlink(missing_ok=True)
        else:
            write_json(_file(folder), asdict(promotion))
    except (OSError, WriteError) as error:
        text = f"It speaks so until a restart, but that is not kept: {without_paths(str(error))}"
        raise Refusal(507, "not_kept", text) from error


def _file(folder: Path) -> Path:
    return folder / "promotion.json"
