"""Manifests: size and SHA-256 of a file, written after it, verified before loading.

`torch.load` accepts a flipped bit and a zeroed block without a word, so nothing of ours is
unpickled before it is compared with its manifest. Used by `xtts.voices.run_folder` and
`train.checkpointing.checkpoints`.
"""

import json
import zipfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from machine.errors import SotaqueError
from machine.storage.atomic import Written, write_json
from machine.storage.file_cache import seal_of
from machine.storage.hashes import sha256_of

SCHEMA = 1


class ManifestError(SotaqueError):
    """A manifest that is missing or damaged; the sentence names file and reason."""


@dataclass(frozen=True)
class Manifest:
    """What was saved, when in the run, and from what.

    epoch: the epoch it ends (or, for interrupted.json, the one it is inside of); step: optimizer
    steps from the run's beginning; losses in nats a token; base: {name, sha256}; blend: of a mean
    of an epoch and its base, {epoch, share, checkpoint_sha256}.
    """

    epoch: int
    step: int
    files: dict[str, Written]
    losses: dict[str, float | None] = field(default_factory=dict)
    base: dict[str, str] = field(default_factory=dict)
    fingerprint: dict[str, Any] = field(default_factory=dict)
    blend: dict[str, Any] = field(default_factory=dict)
    schema: int = SCHEMA


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Writes it with a seal over its own content. Raises DiskFull or WriteError."""
    content = asdict(manifest)
    write_json(path, {**content, "seal": seal_of(content)})


def read_manifest(path: Path) -> Manifest:
    """Raises ManifestError for one that is missing, garbled, changed, or too new."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        seal = content.pop("seal")
    except FileNotFoundError:
        raise ManifestError(
            f"{path} is missing: its checkpoint was not saved to the end, or the file was deleted."
        ) from None
    except (OSError, ValueError, AttributeError, KeyError, TypeError) as error:
        raise ManifestError(f"{path} cannot be read as a manifest ({error}).") from error
    if seal != seal_of(content):
        raise ManifestError(f"{path} was changed or damaged: its seal does not fit its content.")
    if content.get("schema") != SCHEMA:
        raise ManifestError(
            f"{path} has schema {content.get('schema')}, this version reads {SCHEMA}. "
            "Use the version of Sotaque that wrote it."
        )
    try:
        return TypeAdapter(Manifest).validate_python(content)
    except ValidationError as error:
        raise ManifestError(f"{path} cannot be read as a manifest ({error}).") from error


def fault_of(
    manifest: Manifest, folder: Path, *, only: str | None = None, fresh: bool = False
) -> str | None:
    """The first file that is not what the manifest says, as a sentence; None when all are.

    only: check this file alone. fresh: hash again what this process has hashed before.
    """
    for name, expected in manifest.files.items():
        if only in (None, name) and (fault := _file_fault(folder / name, expected, fresh)):
            return fault
    return None


def zip_fault(path: Path) -> str | None:
    """What is wrong with a `torch.save` file by its own CRC-32s, where no manifest is at hand."""
    try:
        with zipfile.ZipFile(path) as file:
            damaged = file.testzip()
    except (OSError, zipfile.BadZipFile) as error:
        return f"{path} is damaged or no checkpoint ({error})."
    return f"{path} is damaged: the checksum of {damaged} does not fit." if damaged else None


def _file_fault(path: Path, expected: Written, fresh: bool) -> str | None:
    try:
        size = path.stat().st_size
        if size != expected.bytes:
            return f"{path} has {size:,} bytes, its manifest says {expected.bytes:,}."
        found = sha256_of(path, fresh=fresh)
    except FileNotFoundError:
        return f"{path} is missing."
    except OSError as error:
        return f"{path} cannot be read ({error.strerror})."
    if found != expected.sha256:
        return (
            f"{path} is damaged: its SHA-256 is {found[:12]}…, "
            f"its manifest says {expected.sha256[:12]}…."
        )
    return None
