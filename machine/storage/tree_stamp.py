"""The stamp of a folder: one hash over the names, sizes and times of all files in it and below.

It is taken as git's index is refreshed: a file counts as unchanged while its size, modification
time, change time and inode stay the same, and nothing is opened. A folder's own times would not do,
since they do not change with the content of its files. Neither would the modification time alone:
anybody can set it back, while the change time is the kernel's.

As in git, times can lie in one case ("racy git",
https://git-scm.com/docs/racy-git): two changes within one tick of the file system's clock leave
equal times behind. What was looked at between them would seem unchanged for ever. So a file that
changed just before it was looked at is not trusted, and is looked into again at the next start.
"""

import hashlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# FAT stores times in steps of 2 s, ext4 in steps of 4 to 10 ms.
RACY_SECONDS = 2.0
# A link to somewhere else may lead to a whole disk.
_MOST_FILES = 1_000_000


@dataclass(frozen=True)
class TreeStamp:
    """A hash in hex; is_racy: a file may still change without changing the hash."""

    sha256: str
    is_racy: bool


def is_racy(status: os.stat_result) -> bool:
    """Whether a file has changed so recently that it may change again within the same tick."""
    return status.st_ctime_ns > time.time_ns() - RACY_SECONDS * 1e9


def tree_stamp(folder: Path) -> TreeStamp | None:
    """The stamp of a folder, links followed; None if it cannot be read, or is too large."""
    digest, newest, count = hashlib.sha256(), 0, 0
    began = time.time_ns()  # before the first look: what changes from here on is newer
    try:
        for here, files in _folders(str(folder)):
            # A file system lists its names in any order.
            lines = sorted(_line(name, status) for name, status in files)
            newest = max([newest, *(status.st_ctime_ns for _, status in files if status)])
            count += len(lines) + 1
            if count > _MOST_FILES:
                return None
            digest.update("\n".join([f"{here}/", *lines, ""]).encode("utf-8", "surrogateescape"))
    except OSError:
        return None
    return TreeStamp(digest.hexdigest(), is_racy=newest > began - RACY_SECONDS * 1e9)


# A name, and its status; None for a link to nothing.
_File = tuple[str, os.stat_result | None]


def _folders(top: str) -> Iterator[tuple[str, list[_File]]]:
    """Each folder from `top` down, once, in the same order every time, with its files."""
    waiting, seen = [top], set()
    while waiting:
        here = waiting.pop()
        status = os.stat(here)
        if (place := (status.st_dev, status.st_ino)) in seen:
            continue
        seen.add(place)
        with os.scandir(here) as found:
            entries = list(found)
        waiting += sorted(entry.path for entry in entries if entry.is_dir())
        yield here, [(entry.name, _status(entry)) for entry in entries if not entry.is_dir()]


def _status(entry: os.DirEntry[str]) -> os.stat_result | None:
    try:
        return entry.stat()
    except FileNotFoundError:
        return None


def _line(name: str, status: os.stat_result | None) -> str:
    if status is None:
        return name
    times = f"{status.st_mtime_ns} {status.st_ctime_ns}"
    return f"{name}\0{status.st_size} {times} {status.st_ino}"
