"""The format of `NAME.sotaque`: its members, and manifest.json, which names all the others.

The file is a ZIP without compression. docs/voice-file.md describes it. Importing this module does
not import torch.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, TypeAdapter, ValidationError

from machine.storage.files import Written
from machine.text import first_line
from xtts.download import xtts_v2 as published
from xtts.model.config import CPML, short_name
from xtts.model.shapes import VOCODER_RATE
from xtts.text.pronunciations import PRONUNCIATIONS_FILE
from xtts.voices import speakers
from xtts.voices.base_models import BundleError

FORMAT = 1
SUFFIX = ".sotaque"
MANIFEST_FILE = "manifest.json"
TENSORS_FILE = "voice.safetensors"
CARD_FILE = "README.md"
CONSENT_FILE = "consent.json"
REFERENCE_FILE = "reference.wav"
PREVIEW_FILE = "preview.wav"
Kind = Literal["latents", "adapter", "weights"]
# An SPDX identifier that a model's config.json may name. Every other licence is a LicenseRef.
_SPDX_IDENTIFIERS = frozenset(
    {"Apache-2.0", "BSD-3-Clause", "CC-BY-4.0", "CC-BY-NC-4.0", "CC-BY-SA-4.0", "CC0-1.0", "MIT"}
)
_CPML_LICENSE_REF = "LicenseRef-CPML-1.0.0"

ShortText = Annotated[str, StringConstraints(max_length=200)]
MAX_NAME, MAX_TEXT = 100, 2_000
NameText = Annotated[str, StringConstraints(min_length=1, max_length=MAX_NAME)]
LongText = Annotated[str, StringConstraints(max_length=MAX_TEXT)]
ConsentText = Annotated[str, StringConstraints(min_length=1, max_length=MAX_TEXT)]
Digest = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
_MB = 1 << 20
# The largest size of each member. Weights of XTTS-v2 in float32 take 1.9 GB.
_MAX_BYTES = {
    CARD_FILE: _MB,
    CONSENT_FILE: _MB,
    REFERENCE_FILE: 64 * _MB,
    PREVIEW_FILE: 64 * _MB,
    PRONUNCIATIONS_FILE: _MB,
    "config.json": _MB,
    "vocab.json": 16 * _MB,
}
_MAX_TENSOR_BYTES: Mapping[Kind, int] = {"latents": 512 * _MB, "adapter": 2_048 * _MB, "weights": 8_192 * _MB}
MAX_MANIFEST_BYTES, MAX_MEMBERS = _MB, 2_048
_SPEAKER_MEMBER = re.compile(
    rf"{speakers.FOLDER}/({re.escape(speakers.LIST_FILE)}|[1-9]\d{{0,2}}\.wav"
    rf"|[1-9]\d{{0,2}}_decoder\.safetensors|{re.escape(speakers.BASE_DECODER)})"
)
_NEEDED_MEMBERS: Mapping[Kind, frozenset[str]] = {
    "latents": frozenset({TENSORS_FILE, CARD_FILE}),
    "adapter": frozenset({TENSORS_FILE, CARD_FILE}),
    "weights": frozenset({TENSORS_FILE, CARD_FILE, "config.json", "vocab.json"}),
}


class VoiceFileError(BundleError):
    """A voice file cannot be used; the message names the file and the reason."""


@dataclass(frozen=True)
class Base:
    """The base model: its name, which may be that of a folder, and the SHA-256 of its weights."""

    name: NameText
    sha256: Digest


@dataclass(frozen=True)
class Preview:
    """How preview.wav was spoken: `synthesize` with these values speaks it again."""

    text: LongText
    language: ShortText
    seed: Annotated[int, Field(ge=0)] = 0


@dataclass(frozen=True)
class Consent:
    """The consent of the recorded person, as the maker of the file states it, unverified: who gave
    it, when, and what it allows."""

    who: ConsentText
    when: ConsentText
    what: ConsentText


@dataclass(frozen=True)
class Manifest:
    """The content of manifest.json.

    Attributes:
        kind: Latents alone, an adapter of the base, or complete weights.
        created: The time in ISO 8601.
        made_by: The program and its version.
        licence: An SPDX identifier, or a LicenseRef.
        licence_text: The licence as the model's config.json states it.
        data_sha256: The hash of the dataset; "" for a voice of a recording alone.
        epoch: 0 for the base.
        evaluation: The figures of the evaluation (`train.voice_file_export`); {} without one.
        preview: None without preview.wav.
        members: Name -> size and SHA-256 of every other member.
    """

    format: Literal[1]
    kind: Kind
    name: NameText
    created: ShortText
    made_by: ShortText
    base: Base
    languages: tuple[ShortText, ...]
    licence: ShortText
    licence_text: LongText
    data_sha256: Digest | Literal[""]
    epoch: Annotated[int, Field(ge=0)]
    sample_rate: Literal[24_000] = VOCODER_RATE  # type: ignore[assignment]
    evaluation: dict[str, object] = field(default_factory=dict)
    preview: Preview | None = None
    members: dict[str, Written] = field(default_factory=dict)

    @property
    def provenance(self) -> dict[str, object]:
        """The base and licence, as `xtts.voices.base_models` reads them."""
        base = {"name": self.base.name, "sha256": self.base.sha256}
        return {"base": base, "licence": self.licence_text}

    @property
    def metadata(self) -> dict[str, str]:
        """The strings in the header of voice.safetensors, which describe it without the manifest."""
        return {
            "format": f"sotaque {self.format}",
            "kind": self.kind,
            "base_model": self.base.name,
            "base_sha256": self.base.sha256,
            "language": ",".join(self.languages),
            "sample_rate": str(self.sample_rate),
            "license": self.licence,
            "dataset_sha256": self.data_sha256,
            "created": self.created,
        }


def is_voice_file(path: Path) -> bool:
    """Whether a path is that of a voice file, by its suffix. The file need not exist."""
    return path.suffix.lower() == SUFFIX


def spdx_of(licence: str) -> str:
    """The SPDX identifier of a licence in config.json, or a LicenseRef for any other."""
    name = short_name(licence).strip()
    if name == CPML:
        return _CPML_LICENSE_REF
    return name if name in _SPDX_IDENTIFIERS else f"LicenseRef-{_license_ref_suffix(name)}"


def _license_ref_suffix(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-.")[:80] or "unknown"


def parse(content: bytes, path: Path) -> Manifest:
    """The manifest in the bytes of manifest.json. Raises VoiceFileError. Checks the format first,
    because this version cannot judge the fields of another one."""
    from pydantic_core import from_json

    try:
        decoded = from_json(content)
    except ValueError as error:
        raise VoiceFileError(f"{path}: {MANIFEST_FILE} is damaged ({first_line(error)}).") from error
    if not isinstance(decoded, dict) or next(iter(decoded), "") != "format":
        raise VoiceFileError(f"{path}: {MANIFEST_FILE} does not begin with the version of the format.")
    if decoded["format"] != FORMAT or isinstance(decoded["format"], bool):
        raise VoiceFileError(
            f"{path} has the format {str(decoded['format'])[:40]!r}; this version reads {FORMAT}. "
            "Use the version of Sotaque that wrote it."
        )
    try:
        manifest = TypeAdapter(Manifest).validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        field_path = ".".join(str(part)[:40] for part in first["loc"])
        raise VoiceFileError(f"{path}: {MANIFEST_FILE} is damaged: {field_path} {first['msg']}.") from error
    _check_members(manifest, path)
    return manifest


def consent_in(content: bytes, path: Path) -> Consent:
    """The consent in the bytes of consent.json. Raises VoiceFileError."""
    try:
        return TypeAdapter(Consent).validate_json(content)
    except ValidationError as error:
        raise VoiceFileError(f"{path}: {CONSENT_FILE} is damaged ({first_line(error)}).") from error


def _check_members(manifest: Manifest, path: Path) -> None:
    """Raises VoiceFileError for a member that a voice of this kind does not have, that is too
    large, or that is missing."""
    for name, written in manifest.members.items():
        limit = max_bytes(name, manifest.kind)
        if limit is None:
            raise VoiceFileError(f"{path} has the member {excerpt(name)}, which no voice has.")
        if not 0 <= written.bytes <= limit:
            raise VoiceFileError(
                f"{path}: {name} has {written.bytes:,} bytes; at most {limit:,} are allowed."
            )
    if missing := _NEEDED_MEMBERS[manifest.kind] - manifest.members.keys():
        raise VoiceFileError(f"{path} lacks {min(missing)}, which this voice needs.")


def max_bytes(name: str, kind: Kind) -> int | None:
    """The largest allowed size of a member; None for one that a voice of this kind does not
    have."""
    if name == TENSORS_FILE:
        return _MAX_TENSOR_BYTES[kind]
    if kind == "weights" and _SPEAKER_MEMBER.fullmatch(name):
        return 512 * _MB
    if kind != "weights" and name in ("config.json", "vocab.json"):
        return None
    return _MAX_BYTES.get(name)


def is_member(name: str) -> bool:
    """Whether a voice of any kind has a member of this name."""
    return name == MANIFEST_FILE or any(max_bytes(name, kind) is not None for kind in _NEEDED_MEMBERS)


def excerpt(name: str) -> str:
    """The name of a stranger's member, safe and short enough for a message."""
    return ascii(name if len(name) <= 60 else f"{name[:57]}...")


def short_base(name: str) -> str:
    """The name of a base without folders of this machine: `demo`, `xtts_v2` or a folder's name."""
    path = Path(name)
    return "xtts_v2" if path == published.FOLDER else path.name or name
