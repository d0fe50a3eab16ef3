"""Unpacks a checked voice file into a folder that `xtts.voices.voice_files` reads.

    VOICES_DIR/imported/NAME/    an imported voice, which the service lists
    CACHE/voices/<digest>/       a voice whose file was named directly, such as by `speak --voice`

The folder holds bundle.json, as of an export, and beside the voice the other members of the file.
Only complete weights need torch.
"""

import itertools
import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError
from safetensors import safe_open
from safetensors.numpy import save

from machine.storage import locks
from machine.storage.atomic import Written, make_folder, replace_file
from machine.storage.facts import cache_folder
from machine.storage.folders import whole_folder
from machine.storage.reading import read_json
from machine.text import first_line, plain_name
from xtts.model.config import ConfigError, ModelConfig
from xtts.text.pronunciations import NAME as PRONUNCIATIONS
from xtts.voices import adapter_file, bundle
from xtts.voices.base_models import base_of
from xtts.voices.files import checking, tensors
from xtts.voices.files import manifest as form
from xtts.voices.files.checking import CheckedVoice
from xtts.voices.files.manifest import Consent, Manifest, VoiceFileError

Array = np.ndarray[Any, Any]

FOLDER = "imported"
_ADAPTERS = "adapters"
# A longer folder name exceeds what file systems take when it is not ASCII.
_MOST_NAME = 60


@dataclass(frozen=True)
class ImportedVoice:
    """name: of the voice and its folder; consent: as the file states it, unverified."""

    name: str
    folder: Path
    manifest: Manifest
    consent: Consent | None


def import_voice(
    path: Path,
    voices_dir: Path,
    *,
    name: str = "",
    replaces: bool = False,
    base: str | Path | None = None,
    xtts_v2: str | Path,
    tos_agreed: bool,
) -> ImportedVoice:
    """Imports a voice file into VOICES_DIR. Nothing is written before every member was checked.

    Args:
        name: The voice's name; "" takes that of the manifest. A taken one gets a number.
        replaces: Whether to replace an imported voice of that name instead.
        base: The folder of the voice's base, if it has moved.

    Raises:
        VoiceFileError: The file is damaged, hostile or of another version.
        BundleError, FilesError: The base model is missing, or another one.
        DiskFull, WriteError: The folder cannot be written.
    """
    with checking.opened(path) as voice:
        made = voice.manifest
        located: Path | None = None
        if made.kind != "weights":
            located = base_of(path, made.provenance, base, xtts_v2, tos_agreed=tos_agreed)
        found = folder_name(name or made.name)
        make_folder(voices_dir)
        with locks.wait_for(voices_dir / ".lock"):
            taken = {plain_name(one) for one in _taken(voices_dir)}
            imported = voices_dir / FOLDER
            if not (replaces and (imported / found).is_dir()):
                found = _free(found, taken)
            to = imported / found
            _unpack(voice, to, str(located.resolve()) if base and located else "")
        return ImportedVoice(found, to, made, voice.consent())


def cached(path: Path) -> Path:
    """The unpacked folder of a voice file, in the user's cache folder. Raises VoiceFileError,
    DiskFull, WriteError."""
    with checking.opened(path, whole=False) as voice:
        to = cache_folder(os.environ) / "voices" / voice.digest
        if not (to / "bundle.json").is_file():
            voice.check()
            make_folder(to.parent)
            with locks.wait_for(to.parent / ".lock"):
                if not (to / "bundle.json").is_file():
                    _unpack(voice, to, "")
        return to


def folder_name(name: str) -> str:
    """A voice's name as that of a folder: without separators, control characters and a leading
    dot."""
    printable = "".join(one if one.isprintable() and one not in "/\\" else " " for one in name)
    short = " ".join(printable.split()).lstrip(". ")
    while len(short.encode()) > 2 * _MOST_NAME or len(short) > _MOST_NAME:
        short = short[:-1].rstrip()
    return short or "voice"


def _taken(voices_dir: Path) -> Iterable[str]:
    """The names of imported voices, of adapters and of uploaded voices."""
    for folder in (voices_dir / FOLDER, voices_dir / _ADAPTERS):
        if folder.is_dir():
            yield from (one.name for one in folder.iterdir() if not one.name.startswith("."))
    for path in voices_dir.glob("*.json"):
        yield str(read_json(path).get("name", ""))


def _free(name: str, taken: set[str]) -> str:
    numbered = (f"{name}-{number}" for number in itertools.count(2))
    return next(one for one in itertools.chain((name,), numbered) if plain_name(one) not in taken)


def _unpack(voice: CheckedVoice, to: Path, base: str) -> None:
    """Writes the folder of a checked voice. base: replaces the base's name."""
    made = voice.manifest
    # The tensors are written twice: as they are in the file, then as the model reads them.
    num_bytes = 2 * sum(one.bytes for one in made.members.values())
    with whole_folder(to, num_bytes) as part:
        files = {
            name: _copied(voice, name, part / name) for name in made.members if name != form.TENSORS
        }
        files |= _write_tensors(voice, part)
        if made.kind == "weights":
            _check_config(voice, part)
        files.pop(PRONUNCIATIONS, None)  # its owner may change it
        kinds = {"latents": bundle.LATENTS, "adapter": bundle.ADAPTER, "weights": "voice"}
        about = bundle.Bundle(
            files=files, base={"name": base or made.base.name, "sha256": made.base.sha256},
            data_sha256=made.data_sha256, epoch=made.epoch, licence=made.licence_text,
            made_at=made.created, speaks_in_coqui=False, kind=kinds[made.kind],
        )  # fmt: skip
        if made.kind == "weights":
            about = replace(about, speaks_in_coqui=ModelConfig.read(part).speaks_in_coqui)
        bundle.write(part, about)
        _copied(voice, form.NAME, part / form.NAME)


def _copied(voice: CheckedVoice, name: str, path: Path) -> Written:
    make_folder(path.parent)
    with closing(voice.open(name)) as source:
        return replace_file(path, lambda file: shutil.copyfileobj(source, file, 1 << 20))


def _write_tensors(voice: CheckedVoice, part: Path) -> dict[str, Written]:
    """Writes the latents, and the adapter and decoder or the model, each as the loader reads it."""
    whole = part / form.TENSORS
    _copied(voice, form.TENSORS, whole)
    own = {tensors.LATENTS, tensors.SPEAKER}
    with safe_open(whole, framework="np") as file:
        names = set(file.keys()) - own
        latents = {name: file.get_tensor(name) for name in own}
        if not all(np.isfinite(one).all() for one in latents.values()):
            raise VoiceFileError(f"{voice.path}: the latents hold non-finite values.")
        files = {bundle.OWN_LATENTS: _saved(part / bundle.OWN_LATENTS, latents)}
        if voice.manifest.kind != "weights":
            learned = {name: file.get_tensor(name) for name in names if tensors.is_adapter(name)}
            decoder = {name: file.get_tensor(name) for name in names - learned.keys()}
            if learned:
                header = {adapter_file.KEY: _adapter_header(voice)}
                files[adapter_file.NAME] = _saved(part / adapter_file.NAME, learned, header)
            if decoder:
                files[bundle.DECODER] = _saved(part / bundle.DECODER, decoder)
    if voice.manifest.kind == "weights":
        files["model.pth"] = _write_model(whole, names, part / "model.pth")
    whole.unlink()
    return files


def _saved(
    path: Path, content: Mapping[str, Array], metadata: dict[str, str] | None = None
) -> Written:
    data = save(dict(content), metadata)
    return replace_file(path, lambda file: file.write(data))


def _write_model(whole: Path, names: set[str], to: Path) -> Written:
    """Writes the weights as Coqui's `model.pth`."""
    import torch

    with safe_open(whole, framework="pt") as file:
        state = {name: file.get_tensor(name) for name in sorted(names)}
    return replace_file(to, lambda file: torch.save({"model": state}, file))


def _adapter_header(voice: CheckedVoice) -> str:
    """The header of the adapter's file. Raises VoiceFileError."""
    try:
        text = voice.metadata.get(adapter_file.KEY, "{}")
        header = TypeAdapter(adapter_file.AdapterHeader).validate_json(text)
    except ValidationError as error:
        raise VoiceFileError(
            f"{voice.path}: the header of the adapter is damaged ({first_line(error)})."
        ) from error
    if dict(header.base).get("sha256") != voice.manifest.base.sha256 or header.rank < 1:
        raise VoiceFileError(f"{voice.path}: the adapter is of another base than the manifest's.")
    return text


def _check_config(voice: CheckedVoice, part: Path) -> None:
    """Raises VoiceFileError if config.json or vocab.json cannot be used."""
    try:
        ModelConfig.read(part)
    except (ConfigError, KeyError, TypeError, ValueError, AttributeError) as error:
        reason = str(error).replace(f"{part}/", "")
        raise VoiceFileError(f"{voice.path}: the model's files cannot be used: {reason}") from error
