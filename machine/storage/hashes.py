"""Caches the SHA-256 of files while their size and modification time stay the same.

Hashing 1.8 GB takes seconds, and saving, pruning, sampling and the next start all need the hash. It
is cached in this process, or kept between starts.
"""

import hashlib
import logging
from pathlib import Path
from typing import NamedTuple

from machine.storage.facts import Facts

log = logging.getLogger(__name__)

_WORTH_A_LINE = 50_000_000


class FileStamp(NamedTuple):
    """A file's resolved path, size and modification time; a changed file has another stamp."""

    path: str
    bytes: int
    mtime_ns: int


# The hashes that this process computed or wrote.
_hashed: dict[FileStamp, str] = {}


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
    stamp = stamp_of(path)  # before reading, so that a change meanwhile is noticed
    digest = None if fresh else _hashed.get(stamp)
    if digest is None:
        digest = _hashed[stamp] = _stored_hash(path, kept_in) if kept_in else _digest(path)
    return digest


def remember_hash(path: Path, sha256: str) -> None:
    """Caches the hash of a file that this process has just written."""
    _hashed[stamp_of(path)] = sha256


def forget_hashes() -> None:
    """Computes every hash again, even of a file whose size and time stay."""
    _hashed.clear()


def _stored_hash(path: Path, folder: Path) -> str:
    """The hash of a file, kept in the facts of `folder` between starts.

    Other programs may have replaced the file since, so the key includes its inode and change time.
    The path is stored only as a hash.
    """
    status = path.stat()
    stamp = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, path.resolve())
    key = hashlib.sha256(repr(stamp).encode()).hexdigest()
    facts = Facts(folder, "sha256", logging.DEBUG)
    if (digest := facts.get(key)) is None:
        if status.st_size > _WORTH_A_LINE:
            log.info("Computing the SHA-256 of %s (%d MB) ...", path, status.st_size / 1e6)
        digest = _digest(path)
        facts.put(key, digest)
        facts.save()
    return str(digest)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
