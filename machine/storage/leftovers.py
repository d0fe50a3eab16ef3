"""Removes what killed writers of `machine.storage.atomic` left."""

import contextlib
import re
import time
from pathlib import Path

# Only a killed writer leaves files with such names.
_TEMPORARY = re.compile(r"^\..+\.\d+\.sotaque-part$")
# No running writer has a temporary file of this age: the largest write takes minutes.
STALE_SECONDS = 24 * 3600.0


def remove_stale(folder: Path, *, older_than_seconds: float | None = None) -> list[Path]:
    """Removes temporary files of killed writers in `folder` and returns them.

    Call it while holding the run's lock. If several processes may write, pass `older_than_seconds`
    to keep the files of running writers.
    """
    removed = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        with contextlib.suppress(OSError):
            age = time.time() - path.stat().st_mtime
            old = older_than_seconds is None or age > older_than_seconds
            if _TEMPORARY.match(path.name) and old:
                path.unlink()
                removed.append(path)
    return removed
