"""Unpacks a checked voice file into a folder that `xtts.voices.voice_files` reads.

    VOICES_DIR/imported/NAME/    an imported voice, which the service lists
    CACHE/voices/<digest>/       a voice whose file was named directly, such as by `speak --voice`

The folder holds bundle.json, as an export does, the voice, and the other members of the file. Only
complete weights need torch.
"""

import itertools
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError
from safetensors import safe_open
from safetensors.numpy import save

from machine.storage import locks
from machine.storage.checksums import sha256_of
from machine.storage.facts import cache_folder
from machine.storage.files import Written, make_folder, read_json, replace_file
from machine.storage.folders import replacing_folder
from machine.text import first_line, plain_name
from xtts.download import xtts_v2 as published
from xtts.model.config import ConfigError, ModelConfig
from xtts.text.pronunciations import PRONUNCIATIONS_FILE
from xtts.voices import adapter_file, bundle
from xtts.voices.base_models import DEMO, BundleError, require_consent, verified_base_folder
from xtts.voices.files import checking, foreign, tensors
from xtts.voices.files import manifest as manifests
from xtts.voices.files.checking import CheckedVoice
from xtts.voices.files.manifest import Consent, Kind, VoiceFileError

Array = NDArray[np.generic]

IMPORTED_FOLDER = "imported"
ADAPTERS_FOLDER = "adapters"
_BUNDLE_KINDS: Mapping[Kind, str] = {
    "latents": bundle.LATENTS,
    "adapter": bundle.ADAPTER,
    "weights": bundle.VOICE,
}
# A longer folder name exceeds what file systems take when it is not ASCII.
_MAX_NAME_LENGTH = 60


@dataclass(frozen=True)
class ImportedVoice:
    """A voice as it was imported.

    Attributes:
        name: The name of the voice and of its folder.
        consent: The consent as the file states it, unverified.
    """

    name: str
    folder: Path
    kind: Kind
    licence: str
    consent: Consent | None = None


def import_voice(
    path: Path,
    voices_dir: Path,
    *,
    name: str = "",
    replaces: bool = False,
    base: str | Path | None = None,
    xtts_v2: str | Path,
    tos_agreed: bool,
    taken: Iterable[str] = (),
) -> ImportedVoice:
    """Imports a voice file into VOICES_DIR. Nothing is written before every member was checked.
    Another program's file becomes a voice of its recording (`xtts.voices.files.foreign`).

    Args:
        name: The voice's name; "" takes that of the manifest. A taken one gets a number.
        replaces: Whether to replace an imported voice of that name instead.
        base: The folder of the voice's base, if it has moved; for a recording, another base.
        taken: Further names that no voice may get.

    Raises:
        VoiceFileError: The file is damaged, hostile or of another version.
        BundleError, FilesError: The base model is missing, or another one.
        DiskFull, WriteError: The folder cannot be written.
    """
    if (foreign_voice := foreign.read_foreign_voice(path)) is not None:
        base_name, base_folder = _base_for_recording(base, Path(xtts_v2), tos_agreed=tos_agreed)
        with _new_folder(voices_dir, name or foreign_voice.name, replaces, taken) as to:
            licence = _write_recording(foreign_voice.wav, to, base_name, base_folder)
        return ImportedVoice(to.name, to, "latents", manifests.spdx_of(licence))
    with checking.open_voice(path) as voice:
        manifest = voice.manifest
        moved_base = ""
        if manifest.kind != "weights":
            provenance = manifest.provenance
            verified_base = verified_base_folder(path, provenance, base, xtts_v2, tos_agreed=tos_agreed)
            moved_base = str(verified_base.resolve()) if base else ""
        with _new_folder(voices_dir, name or manifest.name, replaces, taken) as to:
            _write_folder(voice, to, moved_base)
        return ImportedVoice(to.name, to, manifest.kind, manifest.licence, voice.consent())


def cached_folder(path: Path) -> Path:
    """The unpacked folder of a voice file, in the user's cache folder. Raises VoiceFileError,
    DiskFull, WriteError."""
    with checking.open_voice(path, read_members=False) as voice:
        # The last folder has the voice's name, which the mark of its speech repeats.
        to = cache_folder(os.environ) / "voices" / voice.digest / folder_name(voice.manifest.name)
        if not (to / "bundle.json").is_file():
            voice.check()
            make_folder(to.parent)
            with locks.wait_for(to.parent / ".lock"):
                if not (to / "bundle.json").is_file():
                    _write_folder(voice, to, "")
        return to


@contextmanager
def _new_folder(voices_dir: Path, name: str, replaces: bool, further_taken: Iterable[str]) -> Iterator[Path]:
    """The folder for an imported voice. No other import takes it during the block."""
    folder, imported = folder_name(name), voices_dir / IMPORTED_FOLDER
    if folder.lower().endswith(".wav"):  # requests leave this ending out
        folder = folder[:-4].rstrip(" .") or "voice"
    make_folder(voices_dir)
    make_folder(imported)
    # Not the lock of VOICES_DIR: weights take minutes, and uploads and deletions wait for it.
    with locks.wait_for(imported / ".lock"):
        for leftover in imported.glob(".*.sotaque-part"):  # of killed imports: this one has the lock
            if not leftover.name.endswith(".old.sotaque-part"):
                shutil.rmtree(leftover, ignore_errors=True)
        taken = {plain_name(taken_name) for taken_name in (*_taken_names(voices_dir), *further_taken)}
        if not (replaces and (imported / folder).is_dir()):
            folder = _free_name(folder, taken)
        yield imported / folder


def _base_for_recording(base: str | Path | None, xtts_v2: Path, *, tos_agreed: bool) -> tuple[str, Path]:
    """The name and folder of the base for a recording: the requested one, else XTTS-v2 if it is
    here and its licence was agreed to, else the demo model. Raises BundleError."""
    if base is not None:
        folder = Path(base).expanduser()
        require_consent(f"The base {folder}", folder, {}, tos_agreed=tos_agreed)
        if not (folder / "model.pth").is_file():
            raise BundleError(f"--base {folder} holds no model.pth. Name the folder of a base model.")
        return str(folder.resolve()), folder
    if tos_agreed and not set(published.missing_files(xtts_v2)) - published.OPTIONAL:
        return "xtts_v2", xtts_v2
    return "demo", DEMO


def _write_recording(wav: bytes, to: Path, base_name: str, base: Path) -> str:
    """Writes the folder of a voice that is a recording alone; returns the licence of its base."""
    licence = ModelConfig.read(base).licence
    with replacing_folder(to, len(wav)) as part:
        written = replace_file(part / manifests.REFERENCE_FILE, lambda file: file.write(wav))
        bundle.write(
            part,
            bundle.Bundle(
                files={manifests.REFERENCE_FILE: written},
                base={"name": base_name, "sha256": sha256_of(base / "model.pth")},
                data_sha256="",
                epoch=0,
                licence=licence,
                made_at=datetime.now(UTC).isoformat(timespec="seconds"),
                speaks_in_coqui=False,
                kind=bundle.LATENTS,
            ),
        )
    return licence


def folder_name(name: str) -> str:
    """A voice's name as that of a folder: without separators, control characters and a leading
    dot."""
    printable = "".join(letter if letter.isprintable() and letter not in "/\\" else " " for letter in name)
    short = " ".join(printable.split()).lstrip(". ")
    while len(short.encode()) > 2 * _MAX_NAME_LENGTH or len(short) > _MAX_NAME_LENGTH:
        short = short[:-1].rstrip()
    return short or "voice"


def _taken_names(voices_dir: Path) -> Iterable[str]:
    """The names of imported voices, of adapters and of uploaded voices."""
    for folder in (voices_dir / IMPORTED_FOLDER, voices_dir / ADAPTERS_FOLDER):
        if folder.is_dir():
            yield from (entry.name for entry in folder.iterdir() if not entry.name.startswith("."))
    for path in voices_dir.glob("*.json"):
        yield path.stem  # a request names an uploaded voice by its id, too
        yield str(read_json(path).get("name", ""))


def _free_name(name: str, taken: set[str]) -> str:
    numbered = (f"{name}-{number}" for number in itertools.count(2))
    return next(
        candidate for candidate in itertools.chain((name,), numbered) if plain_name(candidate) not in taken
    )


def _write_folder(voice: CheckedVoice, to: Path, moved_base: str) -> None:
    """Writes the folder of a checked voice. moved_base: the path of the base, if it is not that of
    the manifest, else ""."""
    manifest = voice.manifest
    # The tensors are written twice: as they are in the file, then as the model reads them.
    num_bytes = 2 * sum(member.bytes for member in manifest.members.values())
    with replacing_folder(to, num_bytes) as part:
        copied_names = [name for name in manifest.members if name != manifests.TENSORS_FILE]
        files = {name: _copy(voice, name, part / name) for name in copied_names}
        files |= _write_tensors(voice, part)
        config = _read_config(voice, part) if manifest.kind == "weights" else None
        files.pop(PRONUNCIATIONS_FILE, None)  # its owner may change it
        contents = bundle.Bundle(
            files=files,
            base={"name": moved_base or manifest.base.name, "sha256": manifest.base.sha256},
            data_sha256=manifest.data_sha256,
            epoch=manifest.epoch,
            licence=manifest.licence_text,
            made_at=manifest.created,
            speaks_in_coqui=config is not None and config.speaks_in_coqui,
            kind=_BUNDLE_KINDS[manifest.kind],
        )
        bundle.write(part, contents)
        _copy(voice, manifests.MANIFEST_FILE, part / manifests.MANIFEST_FILE)


def _copy(voice: CheckedVoice, name: str, path: Path) -> Written:
    make_folder(path.parent)
    with closing(voice.open(name)) as source:
        return replace_file(path, lambda file: shutil.copyfileobj(source, file, 1 << 20))


def _write_tensors(voice: CheckedVoice, part: Path) -> dict[str, Written]:
    """Writes the latents, and the adapter and decoder or the model, each as the loader reads it."""
    tensors_file = part / manifests.TENSORS_FILE
    _copy(voice, manifests.TENSORS_FILE, tensors_file)
    latent_names = {tensors.LATENTS_TENSOR, tensors.SPEAKER_TENSOR}
    with safe_open(tensors_file, framework="np") as file:
        names = set(file.keys()) - latent_names
        latents = {name: file.get_tensor(name) for name in latent_names}
        if not all(np.isfinite(array).all() for array in latents.values()):
            raise VoiceFileError(f"{voice.path}: the latents hold non-finite values.")
        files = {bundle.LATENTS_FILE: _save(part / bundle.LATENTS_FILE, latents)}
        if voice.manifest.kind != "weights":
            adapter = {name: file.get_tensor(name) for name in names if tensors.is_adapter(name)}
            decoder = {name: file.get_tensor(name) for name in names - adapter.keys()}
            if adapter:
                header = {adapter_file.METADATA_KEY: _adapter_header(voice)}
                files[adapter_file.FILE_NAME] = _save(part / adapter_file.FILE_NAME, adapter, header)
            if decoder:
                files[bundle.DECODER_FILE] = _save(part / bundle.DECODER_FILE, decoder)
    if voice.manifest.kind == "weights":
        files["model.pth"] = _write_model(tensors_file, names, part / "model.pth")
    tensors_file.unlink()
    return files


def _save(path: Path, content: Mapping[str, Array], metadata: dict[str, str] | None = None) -> Written:
    data = save(dict(content), metadata)
    return replace_file(path, lambda file: file.write(data))


def _write_model(tensors_file: Path, names: set[str], to: Path) -> Written:
    """Writes the weights as Coqui's `model.pth`."""
    import torch

    with safe_open(tensors_file, framework="pt") as file:
        state = {name: file.get_tensor(name) for name in sorted(names)}
    return replace_file(to, lambda file: torch.save({"model": state}, file))


def _adapter_header(voice: CheckedVoice) -> str:
    """The header of the adapter's file. Raises VoiceFileError."""
    try:
        text = voice.metadata.get(adapter_file.METADATA_KEY, "{}")
        header = TypeAdapter(adapter_file.AdapterHeader).validate_json(text)
    except ValidationError as error:
        raise VoiceFileError(
            f"{voice.path}: the header of the adapter is damaged ({first_line(error)})."
        ) from error
    if dict(header.base).get("sha256") != voice.manifest.base.sha256 or header.rank < 1:
        raise VoiceFileError(f"{voice.path}: the adapter is of another base than the manifest's.")
    return text


def _read_config(voice: CheckedVoice, part: Path) -> ModelConfig:
    """Raises VoiceFileError if config.json or vocab.json cannot be used."""
    try:
        return ModelConfig.read(part)
    except (ConfigError, KeyError, TypeError, ValueError, AttributeError) as error:
        reason = str(error).replace(f"{part}/", "")
        raise VoiceFileError(f"{voice.path}: the model's files cannot be used: {reason}") from error
