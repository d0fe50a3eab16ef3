"""The TensorBoard folder of a run in RUNS_DIR, one for each OUTPUT_DIR.

    OUTPUT_DIR/curves.json      {id}: holds no path, so it remains valid when the folder is moved
    RUNS_DIR/<name>/run.json    {id, output_dir}: the run of these curves
    RUNS_DIR/<name>/events.*    TensorBoard shows them as the run <name>

The name is the last part of OUTPUT_DIR, with a number if another run has it. Paths alone do not
identify a run, because in containers every OUTPUT_DIR is the same. Event files directly in RUNS_DIR
are from earlier versions and of an unknown run; they are left alone.
"""

import itertools
import logging
import re
import uuid
from pathlib import Path
from typing import Any

from machine.storage.atomic import make_folder, refused, write_json
from machine.storage.reading import read_json
from xtts.voices.run_folder import RunFolder

log = logging.getLogger("train")

EVENTS = "events.out.tfevents.*"
_OWNER = "run.json"


def find(run: RunFolder, runs_dir: Path) -> Path | None:
    """The folder of this run's curves; None if it has none yet. Only reads."""
    own = read_json(_id_file(run)).get("id")
    folders = (mark.parent for mark in _marks(runs_dir, own) if not _of_the_original(mark, run))
    return next(folders, None)


def claim(run: RunFolder, runs_dir: Path) -> Path:
    """The folder of this run's curves, created if necessary. Raises DiskFull, WriteError."""
    folder = find(run, runs_dir)
    if folder is None:
        own = _own_id(run, runs_dir)
        folder = _new_folder(run, runs_dir)
        if any(runs_dir.glob(EVENTS)):
            log.info(
                "%s holds curves of an earlier version, which did not note whose they are: they "
                "stay, and TensorBoard shows them as the run '.'.", runs_dir,
            )  # fmt: skip
    else:
        own = read_json(_id_file(run))["id"]
    owner = {"id": own, "output_dir": str(run.folder.resolve())}
    if read_json(folder / _OWNER) != owner:  # new, or OUTPUT_DIR was moved
        write_json(folder / _OWNER, owner)
    log.info("Curves: %s", folder)
    return folder


def _own_id(run: RunFolder, runs_dir: Path) -> str:
    """The id in OUTPUT_DIR; a new one if it has none or is a copy of another run."""
    known = read_json(_id_file(run)).get("id")
    if known and not any(_of_the_original(mark, run) for mark in _marks(runs_dir, known)):
        return str(known)
    made = uuid.uuid4().hex
    make_folder(run.folder)
    write_json(_id_file(run), {"id": made})
    return made


def _new_folder(run: RunFolder, runs_dir: Path) -> Path:
    """Creates a folder; two runs that start at once get different ones."""
    name = re.sub(r"[^\w.-]+", "_", run.folder.resolve().name).strip(".") or "run"
    make_folder(runs_dir)
    names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
    return next(runs_dir / name for name in names if _made(runs_dir / name))


def _made(folder: Path) -> bool:
    if folder.exists():
        return False
    with refused(folder):
        try:
            folder.mkdir()
        except FileExistsError:
            return False
    return True


def _marks(runs_dir: Path, own: Any) -> list[Path]:
    """The `run.json` files with this id."""
    if not own:
        return []
    return [
        mark for mark in sorted(runs_dir.glob(f"*/{_OWNER}")) if read_json(mark).get("id") == own
    ]


def _of_the_original(mark: Path, run: RunFolder) -> bool:
    """Whether OUTPUT_DIR is a copy: `mark` names another existing folder with the same id."""
    owner = read_json(mark)
    original = Path(str(owner.get("output_dir")))
    if original == run.folder.resolve():
        return False
    return bool(read_json(_id_file(RunFolder(original))).get("id") == owner.get("id"))


def _id_file(run: RunFolder) -> Path:
    return run.folder / "curves.json"
