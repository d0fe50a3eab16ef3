"""Manifests: size and SHA-256 of a file, written after it and verified before loading.

`torch.load` does not notice a flipped bit or a zeroed block, so a file is compared with its
manifest before it is loaded. `xtts.voices.run_folder` and `train.checkpointing.checkpoints` use
this module.
"""

import hashlib
import json
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from machine.errors import SotaqueError
from machine.storage.atomic import Written, write_json
from machine.storage.hashes import sha256_of
from machine.storage.reading import JsonObject

SCHEMA = 1


class ManifestError(SotaqueError):
    """A manifest is missing or damaged; the text names the file and the reason."""


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
    except (OSError, ValueError, AttributeError, KeyError, TypeError) as error:
        raise ManifestError(f"{path} cannot be read as a manifest ({error}).") from error
    if seal != seal_of(content):
        raise ManifestError(f"{path} was changed or damaged: its seal does not match its content.")
    if content.get("schema") != SCHEMA:
        raise ManifestError(
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
        return f"{path} cannot be read ({error.strerror})."
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
