"""Reads the recording of other programs' voice files: voicebox's and VoiceStudio's.

    .voicebox, .voicebox.zip    samples/NAME.wav, and manifest.json with {"profile": {"name": …}}
    .ovsvoice                   ref_audio.wav, and manifest.json with {"name": …}

Only the longest recording becomes a voice: their engines are others. Both programs compress their
files, so bytes are counted during unpacking. Importing this module does not import torch.
"""

import io
import json
import re
import zipfile
import zlib
from pathlib import Path
from typing import NamedTuple

from machine.text import first_line
from xtts.voices.files import checking
from xtts.voices.files.manifest import VoiceFileError, excerpt

_RECORDING = re.compile(r"(samples/[^/\\]+|ref_audio)\.wav", re.IGNORECASE)
_MANIFEST_FILE = "manifest.json"
# The number of recordings that are read.
_MAX_RECORDINGS = 10
_MAX_MANIFEST_BYTES, _MAX_WAV_BYTES = 1 << 20, 64 << 20
_MAX_SECONDS = 600.0
_UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError)


class ForeignVoice(NamedTuple):
    """The longest recording in a file, as WAV, and the voice's name."""

    name: str
    wav: bytes


def read_foreign_voice(path: Path) -> ForeignVoice | None:
    """The voice in another program's file; None for every other file, also a damaged one. Raises
    VoiceFileError if its recordings cannot be used."""
    try:
        checking.refuse_large_directory(path)
        archive = zipfile.ZipFile(path)
    except _UNREADABLE:
        return None
    with archive:
        names = [member.filename for member in archive.infolist()]
        recordings = [name for name in names if _RECORDING.fullmatch(name)]
        if names.count(_MANIFEST_FILE) != 1 or not recordings:
            return None
        name = _name_in(_read(archive, _MANIFEST_FILE, _MAX_MANIFEST_BYTES), path)
        contents = [_read(archive, recording, _MAX_WAV_BYTES) for recording in recordings[:_MAX_RECORDINGS]]
    seconds, wav = max((_seconds(content, path), content) for content in contents)
    if not 0 < seconds <= _MAX_SECONDS:
        raise VoiceFileError(
            f"{path} has a recording of {seconds:,.0f} s; one of up to {_MAX_SECONDS:g} s is needed."
        )
    return ForeignVoice(name, wav)


def _read(archive: zipfile.ZipFile, name: str, limit: int) -> bytes:
    try:
        with archive.open(name) as file:
            content = file.read(limit + 1)
    except _UNREADABLE as error:
        text = f"{archive.filename}: {excerpt(name)} is damaged ({first_line(error)})."
        raise VoiceFileError(text) from error
    if len(content) > limit:
        text = f"{archive.filename}: {excerpt(name)} unpacks to more than {limit:,} bytes."
        raise VoiceFileError(text)
    return content


def _name_in(content: bytes, path: Path) -> str:
    try:
        manifest = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise VoiceFileError(f"{path}: {_MANIFEST_FILE} is damaged ({first_line(error)}).") from error
    profile = manifest.get("profile") if isinstance(manifest, dict) else None
    for fields in (profile, manifest):
        if isinstance(fields, dict) and isinstance(fields.get("name"), str) and fields["name"].strip():
            return str(fields["name"])
    return path.name.partition(".")[0]


def _seconds(wav: bytes, path: Path) -> float:
    import soundfile

    try:
        sound = soundfile.info(io.BytesIO(wav))
    except soundfile.SoundFileError as error:
        raise VoiceFileError(f"{path}: a recording is not a WAV file ({error}).") from error
    if wav[:4] != b"RIFF" or sound.format not in ("WAV", "WAVEX"):
        raise VoiceFileError(f"{path}: a recording is not a WAV file, but {sound.format}.")
    return float(sound.duration)
