"""Files: written atomically, and small ones read.

A file is complete or absent, whatever kills the writer. A write uses a temporary file in the same
folder, fsync, rename, and fsync of the folder. Without fsync a rename may reach the disk before the
data (see PostgreSQL's durable_rename). All files of runs and exported voices are written through
this module.
"""

import codecs
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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from machine.errors import SotaqueError

# Extra space for metadata and other writers.
SPACE_MARGIN = 1.2
# Only a killed writer leaves files with such names.
_TEMPORARY_NAME = re.compile(r"^\..+\.\d+\.sotaque-part$")
# No running writer has a temporary file of this age: the largest write takes minutes.
STALE_SECONDS = 24 * 3600.0
# A parsed JSON object, whose reader knows the types of its fields.
JsonObject = dict[str, Any]
_MAX_READ_CHARACTERS = 1 << 20
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class WriteError(SotaqueError):
    """A file could not be written; its previous version is unchanged."""


class DiskFull(WriteError):
    """No disk space, quota or file size is left; the text has the bytes needed and free."""

    exit_code = 74


@dataclass(frozen=True)
class Written:
    """The content of a file: its SHA-256 in hex and its size in bytes."""

    sha256: str
    bytes: int


def replace_file(path: Path, writer: Callable[[BinaryIO], object]) -> Written:
    """Replaces `path` atomically by what `writer` writes to the file object it receives.

    Raises DiskFull, or WriteError for a folder that cannot be written. Then, and if `writer`
    raises, `path` is unchanged and no temporary file is left.
    """
    with replacing(path) as file:
        hashing = _HashingFile(file.fileno(), path)
        writer(cast(BinaryIO, hashing))
        if hashing.error is not None:
            raise _write_error(hashing.error, path, hashing.num_bytes) from hashing.error
        return Written(hashing.hash.hexdigest(), hashing.num_bytes)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """As `replace_file`, for writers that seek or need more than the memory: yields a file to read
    and write, which replaces `path` if the block ends without an error."""
    # Random, because two threads, or two containers with the same process ID, may write one path.
    part = path.with_name(f".{path.name}.{secrets.randbits(48)}.sotaque-part")
    try:
        with writing_to(path), part.open("w+b") as file:
            crash_point("part opened", path)
            yield file
            file.flush()
            crash_point("half written", path)
            with writing_to(path, os.fstat(file.fileno()).st_size):
                os.fsync(file.fileno())
        crash_point("after fsync", path)
        with writing_to(path):
            os.replace(part, path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
    crash_point("after replace", path)
    sync_folder(path.parent)


def make_folder(folder: Path) -> None:
    """Creates a folder and its parents if missing. Raises DiskFull or WriteError."""
    # The error is about the parent of the first missing folder, which exists.
    existing = next((path for path in folder.parents if path.exists()), folder.parent)
    with writing_to(existing / folder.name):
        folder.mkdir(parents=True, exist_ok=True)


@contextmanager
def writing_to(path: Path, needed_bytes: int = 0) -> Iterator[None]:
    """Turns an OSError about `path` in its block into DiskFull or WriteError."""
    try:
        yield
    except OSError as error:
        raise _write_error(error, path, needed_bytes) from error


def write_json(path: Path, value: Mapping[str, object]) -> Written:
    """Writes `value` atomically as indented JSON. It must not hold non-finite values."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    return replace_file(path, lambda file: file.write(text.encode()))


def decoded_text(content: bytes) -> str:
    """A text in UTF-8, or in UTF-16 with a byte-order mark, which Windows writes; without the mark.

    Raises UnicodeDecodeError, which names the encoding.
    """
    return content.decode("utf-16" if content.startswith(_UTF16_MARKS) else "utf-8-sig")


def read_text(path: Path) -> str:
    """At most a million characters of a text file; "" if it cannot be read."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(_MAX_READ_CHARACTERS)
    except (OSError, ValueError):
        return ""


def read_json(path: Path) -> JsonObject:
    """The JSON object in a file; {} if there is none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def require_space(folder: Path, num_bytes: int, what: str) -> None:
    """Raises DiskFull unless 1.2 times `num_bytes` are free on the disk of `folder`."""
    needed = int(num_bytes * SPACE_MARGIN)
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise DiskFull(_full_sentence(what, folder, needed, free))


def is_full(error: OSError) -> bool:
    """Whether a write failed for lack of space, quota or file size."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def sync_folder(folder: Path) -> None:
    """Makes renames and removals in `folder` survive a power failure."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # Some network file systems do not support this; there, the rename alone must suffice.
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_stale(folder: Path, *, older_than_seconds: float | None = None) -> list[Path]:
    """Removes temporary files of killed writers in `folder` and returns them.

    Call it while holding the run's lock. If several processes may write, pass `older_than_seconds`
    to keep the files of running writers.
    """
    removed = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        with contextlib.suppress(OSError):
            age = time.time() - path.stat().st_mtime
            is_old = older_than_seconds is None or age > older_than_seconds
            if _TEMPORARY_NAME.match(path.name) and is_old:
                path.unlink()
                removed.append(path)
    return removed


def crash_point(name: str, path: Path | None = None) -> None:
    """For tests: kills this process if SOTAQUE_CRASH_AT is `name` or `name:file name`."""
    place = os.environ.get("SOTAQUE_CRASH_AT")
    if place and place in (name, f"{name}:{path.name if path else ''}"):
        os.kill(os.getpid(), signal.SIGKILL)


class _HashingFile:
    """A write-only file that hashes its data and keeps its first error.

    After an error it continues to count without writing, because `torch.save` would turn an OSError
    into a RuntimeError, and the message about a full disk needs the full size.
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
                unwritten = view
                while unwritten:  # one call writes at most 2 GB, and less when the disk is nearly full
                    unwritten = unwritten[os.write(self._descriptor, unwritten) :]
                self.hash.update(view)
            except OSError as error:
                self.error = error
            crash_point("half written", self._path)
        return len(view)

    def flush(self) -> None:
        """Does nothing: the whole file is flushed once, at the end."""


def _write_error(error: OSError, path: Path, needed_bytes: int) -> WriteError:
    if is_full(error):
        free = shutil.disk_usage(path.parent).free
        if error.errno == errno.EFBIG:
            return DiskFull(
                f"{path} could not be written: it needs {needed_bytes:,} bytes, more than the file "
                "size limit (ulimit -f). Raise the limit. Everything saved before is intact."
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
        f"No space left for {what}: {needed_bytes:,} bytes needed, {free_bytes:,} free in {folder}. "
        "Everything saved before is intact. Free some space and try again."
    )
