"""The SHA-256 of files, and manifests: size and SHA-256, verified before loading.

Hashing 1.8 GB takes seconds, and saving, pruning, sampling and the next start all need the hash. So
it is cached while the file's size and modification time stay the same, in this process or between
starts.

`torch.load` does not notice a flipped bit or a zeroed block, so a file is compared with its
manifest, which was written after it, before it is loaded.
"""

import hashlib
import json
import logging
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

from pydantic import TypeAdapter, ValidationError

from machine.errors import SotaqueError
from machine.storage.facts import Facts
from machine.storage.files import JsonObject, Written, write_json

log = logging.getLogger(__name__)

SCHEMA = 1
_MIN_LOGGED_BYTES = 50_000_000


class FileStamp(NamedTuple):
    """A file's resolved path, size and modification time; a changed file has another stamp."""

    path: str
    bytes: int
    mtime_ns: int


# The hashes of the files that this process read or wrote.
_hashes: dict[FileStamp, str] = {}


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
    digest = None if fresh else _hashes.get(stamp)
    if digest is None:
        digest = _hashes[stamp] = _cached_sha256(path, kept_in) if kept_in else _compute_sha256(path)
    return digest


def remember_hash(path: Path, sha256: str) -> None:
    """Caches the hash of a file that this process has just written."""
    _hashes[stamp_of(path)] = sha256


def forget_hashes() -> None:
    """Computes every hash again, even of a file whose size and time stay."""
    _hashes.clear()


def _cached_sha256(path: Path, folder: Path) -> str:
    """The hash of a file, kept in the facts of `folder` between starts.

    Other programs may have replaced the file since, so the key includes its inode and change time.
    The path is stored only as a hash.
    """
    status = path.stat()
    stamp = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, path.resolve())
    key = hashlib.sha256(repr(stamp).encode()).hexdigest()
    facts = Facts(folder, "sha256", logging.DEBUG)
    if (digest := facts.get(key)) is None:
        if status.st_size > _MIN_LOGGED_BYTES:
            log.info("Computing the SHA-256 of %s (%d MB) ...", path, status.st_size / 1e6)
        digest = _compute_sha256(path)
        facts.put(key, digest)
        facts.save()
    return str(digest)


def _compute_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class ManifestError(SotaqueError):
    """A manifest is missing or damaged; the text names the file and the reason."""


class UnreadableManifestError(ManifestError):
    """A manifest that may be intact: it cannot be read now, or a newer version wrote it."""


class Unreadable(str):
    """A fault of a file that may be intact: it cannot be read now, or a newer version wrote it."""


@dataclass(frozen=True)
class Manifest:
    """The provenance of saved files.

    Attributes:
        epoch: The epoch that it ends; in interrupted.json, the epoch in progress.
        step: Optimizer steps since the start of the run.
        files: File name -> size and SHA-256.
        losses: Name -> loss in nats per token.
        base: {name, sha256} of the base model.
        fingerprint: The base, data, vocabulary and shapes of the run.
        blend: {epoch, share, checkpoint_sha256} of a blend of an epoch and its base.
        data: {clips, minutes, settings} of the dataset; {} if an earlier version wrote it.
    """

    epoch: int
    step: int
    files: dict[str, Written]
    losses: dict[str, float | None] = field(default_factory=dict)
    base: dict[str, str] = field(default_factory=dict)
    fingerprint: JsonObject = field(default_factory=dict)
    blend: JsonObject = field(default_factory=dict)
    data: JsonObject = field(default_factory=dict)
    schema: int = SCHEMA


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Writes a manifest with a seal over its content. Raises DiskFull or WriteError."""
    content = asdict(manifest)
    write_json(path, {**content, "seal": seal_of(content)})


def read_manifest(path: Path) -> Manifest:
    """Reads a manifest. Raises ManifestError if it is missing, damaged, changed or too new."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        seal = content.pop("seal")
    except FileNotFoundError:
        raise ManifestError(
            f"{path} is missing: saving its checkpoint was interrupted, or the file was deleted."
        ) from None
    except OSError as error:
        raise UnreadableManifestError(f"{path} cannot be read ({error.strerror}).") from error
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        raise ManifestError(f"{path} cannot be read as a manifest ({error}).") from error
    if seal != seal_of(content):
        raise ManifestError(f"{path} was changed or damaged: its seal does not match its content.")
    if content.get("schema") != SCHEMA:
        raise UnreadableManifestError(
            f"{path} has schema {content.get('schema')}, but this version reads {SCHEMA}. "
            "Use the version of Sotaque that wrote it."
        )
    try:
        return TypeAdapter(Manifest).validate_python(content)
    except ValidationError as error:
        raise ManifestError(f"{path} cannot be read as a manifest ({error}).") from error


def fault_of(files: Mapping[str, Written], folder: Path) -> str | None:
    """The first file that does not match its manifest, as a sentence; None if all do."""
    for name, expected in files.items():
        if fault := _file_fault(folder / name, expected):
            return fault
    return None


def zip_fault(path: Path) -> str | None:
    """Checks a `torch.save` file without a manifest by the CRC-32s in it; None if it is intact."""
    try:
        with zipfile.ZipFile(path) as file:
            damaged = file.testzip()
    except (OSError, zipfile.BadZipFile) as error:
        return f"{path} is damaged or not a checkpoint ({error})."
    return f"{path} is damaged: the checksum of {damaged} does not match." if damaged else None


def _file_fault(path: Path, expected: Written) -> str | None:
    try:
        size = path.stat().st_size
        if size != expected.bytes:
            return f"{path} has {size:,} bytes, but its manifest says {expected.bytes:,}."
        digest = sha256_of(path)
    except FileNotFoundError:
        return f"{path} is missing."
    except OSError as error:
        return Unreadable(f"{path} cannot be read ({error.strerror}).")
    if digest != expected.sha256:
        return (
            f"{path} is damaged: its SHA-256 is {digest[:12]}…, "
            f"but its manifest says {expected.sha256[:12]}…."
        )
    return None


def seal_of(content: Mapping[str, object]) -> str:
    """The SHA-256 of JSON values, which reveals changes and damage."""
    text = json.dumps(content, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
