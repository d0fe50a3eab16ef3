"""Lists the trainings in progress: each holds a lock below CACHE_DIR, which its machine shares.

So do `train evaluate`, `learn-decoder` and `sample`, which work on an existing run.

    CACHE_DIR/at_work/<random>.lock    held during the work; "<device> <OUTPUT_DIR>"

The lock ends with its process, so a killed training is not listed. Both containers of training and
`make train` of one clone have the same CACHE_DIR.
"""

import contextlib
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from machine.storage import locks
from machine.storage.files import WriteError, make_folder, read_text

_FOLDER = "at_work"
# A file exists briefly before it is locked.
_STALE_SECONDS = 60.0


@contextmanager
def at_work(cache_dir: Path, device: str, output_dir: Path) -> Iterator[None]:
    """Lists this training while the block runs. If the file cannot be written, training continues
    without a message."""
    path = cache_dir / _FOLDER / f"{secrets.token_hex(8)}.lock"
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError, WriteError):
            make_folder(path.parent)
            held.enter_context(locks.exclusive(path))
            held.callback(path.unlink, missing_ok=True)
            path.write_text(f"{device} {output_dir.absolute()}")
        yield


def trainings(cache_dir: Path, wish: str = "auto") -> list[str]:
    """The OUTPUT_DIR of each training in progress, as its process names it, that may compute on the
    same device as one with DEVICE=wish; none on a file system without locks."""
    folders = []
    for path in sorted((cache_dir / _FOLDER).glob("*.lock")):
        if locks.is_held(path):
            device, _, output_dir = read_text(path).partition(" ")
            if wish == "auto" or device == ("cuda:0" if wish == "cuda" else wish):
                folders.append(output_dir)
            continue
        with contextlib.suppress(OSError):  # left by a killed training
            if time.time() - path.stat().st_mtime > _STALE_SECONDS:
                path.unlink()
    return folders
