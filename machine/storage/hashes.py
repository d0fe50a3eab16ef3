"""The SHA-256 of files, read once: it holds while a file's size and time of change stay.

A file of 1.8 GB takes seconds to hash, and saving, pruning, sampling and the next start all ask.
What is known lasts as long as this process, is handed to a child, or is kept between starts.
"""

import hashlib
from dataclasses import dataclass
from os import stat_result
from pathlib import Path
from typing import NamedTuple

from machine.storage.file_cache import FileCache


class FileStamp(NamedTuple):
    """Where a file really lies, its size and when it was changed: another stamp, another file."""

    path: str
    bytes: int
    mtime_ns: int


@dataclass(frozen=True)
class HashedFile:
    """What a file was when it was hashed; without a path, so that its folder may be moved."""

    sha256: str
    bytes: int
    mtime_ns: int

    def is_still(self, found: stat_result) -> bool:
        """Whether the file that was found has the size and the time of the one that was hashed."""
        return (self.bytes, self.mtime_ns) == (found.st_size, found.st_mtime_ns)


# Resolved path -> what this process has read, written or been given of the file there.
_hashed: dict[str, HashedFile] = {}


def stamp_of(path: Path | str) -> FileStamp:
    """Raises OSError."""
    there = Path(path).resolve()
    found = there.stat()
    return FileStamp(str(there), found.st_size, found.st_mtime_ns)


def sha256_of(path: Path, *, fresh: bool = False, kept_in: Path | None = None) -> str:
    """The SHA-256 of a file in hex, read once in a process while its size and time stay.

    Args:
        path: The file.
        fresh: Read it again in any case.
        kept_in: A folder that keeps the hash between starts, of a file that hardly ever changes.

    Raises:
        OSError: It cannot be read.
    """
    if kept_in:
        return _kept(path, kept_in)
    known = None if fresh else hashed_file(path)
    if known is None:
        found = path.stat()  # before it is read: what is changed meanwhile is read again
        known = HashedFile(_digest(path), found.st_size, found.st_mtime_ns)
        trust_cached_hash(path, known)
    return known.sha256


def remember_hash(path: Path, sha256: str) -> None:
    """Notes a file that this process has just written, so that it is not read back at once."""
    found = path.stat()
    trust_cached_hash(path, HashedFile(sha256, found.st_size, found.st_mtime_ns))


def hashed_file(path: Path) -> HashedFile | None:
    """What this process knows of a file as it is now, for a child that is to `trust_cached_hash`
    it; None when it has neither read nor written it. Raises OSError."""
    known = _hashed.get(str(path.resolve()))
    return known if known and known.is_still(path.stat()) else None


def trust_cached_hash(path: Path, known: HashedFile) -> None:
    """Takes over what the parent has hashed: as in its own process, a file is not hashed again
    while its stamp stays."""
    _hashed[str(path.resolve())] = known


def _kept(path: Path, folder: Path) -> str:
    """Other programs may have been at the file since the last start, so its time of renaming and
    its inode count as well. The path is kept as a hash only."""
    found = path.stat()
    facts = (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, path.resolve())
    key = hashlib.sha256(repr(facts).encode()).hexdigest()
    kept = FileCache(folder / f"{key}.json")
    if known := kept.get("sha256"):
        return str(known)
    sha256 = _digest(path)
    kept.put("sha256", sha256)
    kept.save()
    return sha256


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
