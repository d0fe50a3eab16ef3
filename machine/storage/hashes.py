"""Caches the SHA-256 of files while their size and modification time stay the same.

Hashing 1.8 GB takes seconds, and saving, pruning, sampling and the next start all need the hash. It
is cached in this process, passed to a child, or kept between starts.
"""

import hashlib
from dataclasses import dataclass
from os import stat_result
from pathlib import Path
from typing import NamedTuple

from machine.storage.facts import Facts


class FileStamp(NamedTuple):
    """A file's resolved path, size and modification time; a changed file has another stamp."""

    path: str
    bytes: int
    mtime_ns: int


@dataclass(frozen=True)
class HashedFile:
    """A file's hash and its size and time at that moment; no path, so that it can be moved."""

    sha256: str
    bytes: int
    mtime_ns: int

    def is_still(self, status: stat_result) -> bool:
        """Whether a file's `stat` has the size and time of the hashed file."""
        return (self.bytes, self.mtime_ns) == (status.st_size, status.st_mtime_ns)


# Resolved path -> the hash that this process computed, wrote or received.
_hashed: dict[str, HashedFile] = {}


def stamp_of(path: Path | str) -> FileStamp:
    """The stamp of a file. Raises OSError."""
    resolved = Path(path).resolve()
    status = resolved.stat()
    return FileStamp(str(resolved), status.st_size, status.st_mtime_ns)


def sha256_of(path: Path, *, fresh: bool = False, kept_in: Path | None = None) -> str:
    """The SHA-256 of a file in hex, computed once per process while its size and time stay.

    Args:
        path: The file.
        fresh: Compute it even if it is cached.
        kept_in: A folder whose facts keep the hash between starts.

    Raises:
        OSError: It cannot be read.
    """
    if kept_in:
        return _kept(path, kept_in)
    known = None if fresh else hashed_file(path)
    if known is None:
        status = path.stat()  # before reading, so that a change meanwhile is noticed
        known = HashedFile(_digest(path), status.st_size, status.st_mtime_ns)
        trust_cached_hash(path, known)
    return known.sha256


def remember_hash(path: Path, sha256: str) -> None:
    """Caches the hash of a file that this process has just written."""
    status = path.stat()
    trust_cached_hash(path, HashedFile(sha256, status.st_size, status.st_mtime_ns))


def hashed_file(path: Path) -> HashedFile | None:
    """The cached hash of an unchanged file, for a child's `trust_cached_hash`; None if this process
    has neither read nor written it. Raises OSError."""
    known = _hashed.get(str(path.resolve()))
    return known if known and known.is_still(path.stat()) else None


def trust_cached_hash(path: Path, known: HashedFile) -> None:
    """Caches a hash that another process computed; it holds while the file's stamp stays."""
    _hashed[str(path.resolve())] = known


def _kept(path: Path, folder: Path) -> str:
    """The hash of a file, kept in the facts of `folder` between starts.

    Other programs may have replaced the file since, so the key includes its inode and change time.
    The path is stored only as a hash.
    """
    status = path.stat()
    stamp = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, path.resolve())
    key = hashlib.sha256(repr(stamp).encode()).hexdigest()
    facts = Facts(folder, "sha256")
    if (known := facts.get(key)) is None:
        known = _digest(path)
        facts.put(key, known)
        facts.save()
    return str(known)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
