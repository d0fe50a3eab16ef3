"""Atomic writes: a file is whole or absent whatever kills the writer; disk full.

Temporary file in the same folder, fsync, rename, fsync of the folder (as PostgreSQL's
durable_rename: without it a rename may reach the disk before the data). Everything that a run or a
bundle keeps is written through here.
"""

import contextlib
import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from machine.errors import SotaqueError

# Left behind by a killed writer under this name, and by nothing else.
_TEMPORARY = re.compile(r"^\..+\.\d+\.sotaque-part$")
# What a write may need beyond its size: metadata, and whatever else writes meanwhile.
SPACE_MARGIN = 1.2
# A temporary file of that age belongs to no writer that still lives: the largest takes minutes.
STALE_SECONDS = 24 * 3600.0


class WriteError(SotaqueError):
    """A file could not be written; what stood there before still does."""


class DiskFull(WriteError):
    """No space, quota or file size left; the sentence says bytes needed and free."""

    exit_code = 74


@dataclass(frozen=True)
class Written:
    """What a file holds: the SHA-256 in hex and the size in bytes."""

    sha256: str
    bytes: int


def replace_file(path: Path, writer: Callable[[BinaryIO], object]) -> Written:
    """Calls `writer` with a file object and gives `path` its content in one step.

    Raises DiskFull, or WriteError for a folder that cannot be written. In both cases, and when
    `writer` raises, `path` is as it was and no temporary file is left.
    """
    # Two threads, or two containers whose processes have the same number, may write one path.
    part = path.with_name(f".{path.name}.{secrets.randbits(48)}.sotaque-part")
    try:
        try:
            written = _write(part, path, writer)
            os.replace(part, path)
        except OSError as error:
            raise _explained(error, path, 0) from error
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
    crash_point("after replace", path)
    sync_folder(path.parent)
    return written


def make_folder(folder: Path) -> None:
    """Makes a folder, and those above it, where it is missing. Raises DiskFull or WriteError."""
    above = next((path for path in folder.parents if path.exists()), folder.parent)
    with refused(above / folder.name):
        folder.mkdir(parents=True, exist_ok=True)


@contextmanager
def refused(path: Path) -> Iterator[None]:
    """Raises DiskFull or WriteError, with its sentence, for an OSError about `path` inside."""
    try:
        yield
    except OSError as error:
        raise _explained(error, path, 0) from error


def write_json(path: Path, value: dict[str, Any]) -> Written:
    """`value` as readable JSON, atomically. It must not hold non-finite values."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    return replace_file(path, lambda file: file.write(text.encode()))


def require_space(folder: Path, num_bytes: int, what: str) -> None:
    """Raises DiskFull unless 1.2 times `num_bytes` are free where `folder` is."""
    needed = int(num_bytes * SPACE_MARGIN)
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise DiskFull(_full_sentence(what, folder, needed, free))


def remove_stale(folder: Path, *, older_than_seconds: float | None = None) -> list[Path]:
    """Removes what killed writers left in `folder`; returns what went.

    For whoever holds the run's lock; where several may write at once, only what is old enough.
    """
    gone = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        with contextlib.suppress(OSError):
            age = time.time() - path.stat().st_mtime
            old = older_than_seconds is None or age > older_than_seconds
            if _TEMPORARY.match(path.name) and old:
                path.unlink()
                gone.append(path)
    return gone


def is_full(error: OSError) -> bool:
    """Whether a write failed for want of space, quota or file size."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def sync_folder(folder: Path) -> None:
    """Makes renames and removals in `folder` outlive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # Some network file systems refuse this; there the rename is all that can be had.
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def crash_point(name: str, path: Path | None = None) -> None:
    """Kills this process, for the tests that kill writers, when SOTAQUE_CRASH_AT is `name` or
    `name:file name`."""
    wanted = os.environ.get("SOTAQUE_CRASH_AT")
    if wanted and wanted in (name, f"{name}:{path.name if path else ''}"):
        os.kill(os.getpid(), signal.SIGKILL)


class _HashingFile:
    """A write-only file that hashes what passes and remembers its first failure.

    After a failure it goes on counting without writing: `torch.save` hides an OSError behind a
    RuntimeError of its own, and the full size belongs into the sentence about the full disk.
    """

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor = descriptor
        self._path = path
        self.hash = hashlib.sha256()
        self.num_bytes = 0
        self.error: OSError | None = None

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self.num_bytes += len(view)
        if self.error is None:
            try:
                rest = view
                while rest:  # one call takes at most 2 GB, and less on a disk that gets full
                    rest = rest[os.write(self._descriptor, rest) :]
                self.hash.update(view)
            except OSError as error:
                self.error = error
            crash_point("half written", self._path)
        return len(view)

    def flush(self) -> None:
        """Nothing: the whole is flushed once, at the end."""


def _write(part: Path, path: Path, writer: Callable[[BinaryIO], object]) -> Written:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    descriptor = os.open(part, flags, 0o666)
    try:
        crash_point("part opened", path)
        hashing = _HashingFile(descriptor, path)
        writer(cast(BinaryIO, hashing))
        try:
            if hashing.error is not None:
                raise hashing.error
            os.fsync(descriptor)
        except OSError as error:
            raise _explained(error, path, hashing.num_bytes) from error
        crash_point("after fsync", path)
        return Written(hashing.hash.hexdigest(), hashing.num_bytes)
    finally:
        os.close(descriptor)


def _explained(error: OSError, path: Path, needed_bytes: int) -> WriteError:
    if is_full(error):
        free = shutil.disk_usage(path.parent).free
        if error.errno == errno.EFBIG:
            return DiskFull(
                f"{path} could not be written: it needs {needed_bytes:,} bytes, more than a file "
                "may have here (ulimit -f). Raise the limit; everything saved before is intact."
            )
        return DiskFull(_full_sentence(str(path), path.parent, needed_bytes, free))
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return WriteError(
            f"{path.parent} cannot be written ({error.strerror}). Make it writable for this user, "
            "or name another folder."
        )
    return WriteError(f"{path} could not be written ({error.strerror}); nothing was replaced.")


def _full_sentence(what: str, folder: Path, needed_bytes: int, free_bytes: int) -> str:
    return (
        f"No space left for {what}: {needed_bytes:,} bytes needed, {free_bytes:,} free in "
        f"{folder}. "
        "Everything saved before is intact. Free space and give the same command again."
    )
