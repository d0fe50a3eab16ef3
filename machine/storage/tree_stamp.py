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
    waiting, seen = [str(folder)], set()
    try:
        while waiting:
            here = waiting.pop()
            status = os.stat(here)
            if (place := (status.st_dev, status.st_ino)) in seen:
                continue
            seen.add(place)
            lines = [f"{here}/"]
            with os.scandir(here) as found:
                for entry in found:
                    if entry.is_dir():
                        waiting.append(entry.path)
                        continue
                    try:
                        status = entry.stat()
                    except FileNotFoundError:  # a link to nothing
                        lines.append(entry.name)
                        continue
                    newest = max(newest, status.st_ctime_ns)
                    lines.append(
                        f"{entry.name}\0{status.st_size} {status.st_mtime_ns} "
                        f"{status.st_ctime_ns} {status.st_ino}"
                    )
            count += len(lines)
            if count > _MOST_FILES:
                return None
            lines.sort()  # a file system lists its names in any order
            digest.update("\n".join([*lines, ""]).encode("utf-8", "surrogateescape"))
            waiting.sort()
    except OSError:
        return None
    return TreeStamp(digest.hexdigest(), is_racy=newest > began - RACY_SECONDS * 1e9)
