"""Deletes a run: how much that frees, what forbids it, and the deletion itself."""

import contextlib
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from api.errors import APIError, without_paths
from api.runs.listing import RunSummary
from machine.storage.atomic import WriteError, refused
from xtts.voices.run_folder import RunError

_DELETED = ".deleted-"
# Who looks whether a run is trained holds its lock for a moment, every two seconds.
_LOCK_TRIES, _LOCK_WAIT_SECONDS = 10, 0.02


def sizes(folder: Path) -> tuple[int, int]:
    """The bytes of all files, and those of them that a deletion frees: a file that also has a name
    elsewhere, such as a promoted checkpoint, stays. Blocks."""
    total = freed = 0
    for parent, _folders, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                found = os.lstat(os.path.join(parent, name))
                total += found.st_size
                freed += found.st_size if found.st_nlink == 1 else 0
    return total, freed


def remove(run: RunSummary) -> None:
    """Deletes a named or archived run. It disappears at once; what a kill leaves goes with the next
    deletion. Blocks.

    Raises APIError: 409 while it is trained, 507 where the folder cannot be written.
    """
    folder = run.folder.folder
    gone = folder.parent / f"{_DELETED}{secrets.token_hex(4)}"
    try:
        with _locked(run), refused(folder):
            folder.rename(gone)
        with refused(folder):
            for one in folder.parent.glob(f"{_DELETED}*"):
                shutil.rmtree(one)
    except RunError as error:
        raise APIError(409, "run_in_use", "The run is being trained. Cancel that first.") from error
    except WriteError as error:
        text = (
            f"The run could not be deleted: {without_paths(str(error))} In a container mount "
            "OUTPUT_DIR/runs and OUTPUT_DIR/archive writable, as docker-compose-gpu.yml does."
        )
        raise APIError(507, "not_kept", text) from error


@contextmanager
def _locked(run: RunSummary) -> Iterator[None]:
    """The run's lock. Raises RunError while a training holds it."""
    with contextlib.ExitStack() as held:
        for left in reversed(range(_LOCK_TRIES)):
            try:
                held.enter_context(run.folder.lock())
                break
            except RunError:
                if not left:
                    raise
                time.sleep(_LOCK_WAIT_SECONDS)
        yield
