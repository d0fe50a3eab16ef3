"""The room on the disks of uploads: what is taken, what is left, and what always stays free."""

import contextlib
import os
import shutil
from pathlib import Path

from pydantic import BaseModel

# No upload and no reading takes the last of a disk: runs and voices are written there too.
KEPT_FREE_BYTES = 1 << 30


class DiskSpace(BaseModel):
    """In bytes. used: by all datasets with what is announced, or by all books; most: by
    DATASETS_MAX_GB or BOOKS_MAX_GB; free: what the disk has left."""

    used: int
    most: int
    free: int


def free_bytes(folder: Path) -> int:
    """What the disk of a folder has left; the folder need not exist yet."""
    folder = folder.absolute()
    above = next(one for one in (folder, *folder.parents) if one.exists())
    return shutil.disk_usage(above).free


def bytes_below(folder: Path) -> int:
    """What all files below a folder take."""
    used = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                used += os.lstat(os.path.join(parent, name)).st_size
    return used
