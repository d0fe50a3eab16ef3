"""Checks a voice file completely before anything of it is written.

The file may come from anybody. Its members are not compressed, so it unpacks to its own size at
most. Every member is read once, compared with the manifest, and judged by its content.
"""

import hashlib
import io
import json
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from pydantic import TypeAdapter, ValidationError

from machine.storage.files import Written
from machine.text import first_line
from xtts.voices import speakers
from xtts.voices.files import manifest as manifests
from xtts.voices.files import tensors
from xtts.voices.files.manifest import Consent, Manifest, VoiceFileError, excerpt

_CHUNK_BYTES = 1 << 20
_UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, ValueError)
_MAX_SECONDS = 600.0
_MAX_DIRECTORY_BYTES = 1 << 20


class CheckedVoice:
    """An open voice file. `check` compares its members with its manifest.

    Attributes:
        digest: The SHA-256 of manifest.json, which identifies the content of the whole file.
        metadata: The strings in the header of voice.safetensors.
    """

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self.path, self._zip = path, archive
        content = self._content(manifests.MANIFEST_FILE, manifests.MAX_MANIFEST_BYTES)
        self.digest = hashlib.sha256(content).hexdigest()
        self.manifest: Manifest = manifests.parse(content, path)
        self.metadata: dict[str, str] = {}
        self._check_names()

    def open(self, name: str) -> IO[bytes]:
        """A member, to be read once from its beginning."""
        return self._zip.open(name)

    def read(self, name: str) -> bytes:
        """The content of a small member."""
        return self._content(name, self.manifest.members[name].bytes)

    def consent(self) -> Consent | None:
        """The stated consent; None without one."""
        if manifests.CONSENT_FILE not in self.manifest.members:
            return None
        return manifests.consent_in(self.read(manifests.CONSENT_FILE), self.path)

    def check(self) -> None:
        """Reads every member. Raises VoiceFileError for the first that is not as it should be."""
        for name, expected in self.manifest.members.items():
            self._check_hash(name, expected)
        with self.open(manifests.TENSORS_FILE) as file:
            size = self.manifest.members[manifests.TENSORS_FILE].bytes
            try:
                header = tensors.read_header(file, size)
                self.metadata = header.metadata
                tensors.check_kind(header, self.manifest.kind)
            except ValueError as error:
                raise VoiceFileError(f"{self.path}: {manifests.TENSORS_FILE}: {error}") from error
        for name in self.manifest.members:
            if name.endswith(".wav"):
                self._check_sound(name)
            elif name.endswith(".json"):
                self._check_json(name)
        self.consent()
        self._check_speakers()

    def _content(self, name: str, limit: int) -> bytes:
        try:
            with self._zip.open(name) as file:
                content = file.read(limit + 1)
        except KeyError:
            raise VoiceFileError(f"{self.path} lacks {name}, so it is not a voice file.") from None
        except _UNREADABLE as error:
            raise self._damage_error(name, error) from error
        if len(content) > limit:
            raise VoiceFileError(f"{self.path}: {name} has more than {limit:,} bytes.")
        return content

    def _check_names(self) -> None:
        present = {member.filename for member in self._zip.infolist()} - {manifests.MANIFEST_FILE}
        if missing := self.manifest.members.keys() - present:
            raise VoiceFileError(f"{self.path} lacks {min(missing)}, which its manifest names.")
        if unnamed := present - self.manifest.members.keys():
            raise VoiceFileError(
                f"{self.path} has the member {excerpt(min(unnamed))}, which its manifest does not name."
            )

    def _check_hash(self, name: str, expected: Written) -> None:
        digest, count = hashlib.sha256(), 0
        try:
            with self.open(name) as file:
                while chunk := file.read(_CHUNK_BYTES):
                    digest.update(chunk)
                    count += len(chunk)
        except _UNREADABLE as error:
            raise self._damage_error(name, error) from error
        if count != expected.bytes:
            raise VoiceFileError(
                f"{self.path}: {name} has {count:,} bytes, but the manifest says {expected.bytes:,}."
            )
        if digest.hexdigest() != expected.sha256:
            raise VoiceFileError(
                f"{self.path}: {name} is damaged or was changed: its SHA-256 is "
                f"{digest.hexdigest()[:12]}…, but the manifest says {expected.sha256[:12]}…."
            )

    def _check_sound(self, name: str) -> None:
        import soundfile

        content = self.read(name)
        try:
            if content[:4] != b"RIFF":
                raise ValueError("it does not begin with RIFF")
            sound = soundfile.info(io.BytesIO(content))
        except (soundfile.SoundFileError, ValueError) as error:
            raise VoiceFileError(f"{self.path}: {name} is not a WAV file ({error}).") from error
        if sound.format not in ("WAV", "WAVEX") or not 0 < sound.duration <= _MAX_SECONDS:
            raise VoiceFileError(
                f"{self.path}: {name} has {sound.duration:,.0f} s of {sound.format}; a WAV of at "
                f"most {_MAX_SECONDS:g} s is allowed."
            )

    def _check_json(self, name: str) -> None:
        try:
            # Coqui's config.json has `Infinity`, which strict JSON lacks.
            content = json.loads(self.read(name))
        except (ValueError, RecursionError) as error:
            raise self._damage_error(name, error) from error
        if not isinstance(content, dict):
            raise VoiceFileError(f"{self.path}: {name} is damaged: it holds no object.")

    def _check_speakers(self) -> None:
        """Raises VoiceFileError if speakers.json names a file that is not among the members."""
        name = f"{speakers.FOLDER}/{speakers.LIST_FILE}"
        if name not in self.manifest.members:
            return
        adapter = TypeAdapter(dict[str, list[speakers.Speaker]])
        try:
            listed_speakers = adapter.validate_json(self.read(name)).get("speakers", [])
        except ValidationError as error:
            raise self._damage_error(name, error) from error
        for speaker in listed_speakers:
            if f"{speakers.FOLDER}/{speaker.file}" not in self.manifest.members:
                raise VoiceFileError(
                    f"{self.path}: {name} names {excerpt(speaker.file)}, which the file lacks."
                )

    def _damage_error(self, name: str, error: Exception) -> VoiceFileError:
        return VoiceFileError(f"{self.path}: {name} is damaged ({first_line(error)}).")


@contextmanager
def open_voice(path: Path, *, read_members: bool = True) -> Iterator[CheckedVoice]:
    """The voice in a file, checked before the block begins.

    Args:
        read_members: Whether every member is read; False checks only the directory and the manifest.

    Raises VoiceFileError.
    """
    try:
        size = path.stat().st_size
        refuse_large_directory(path)
        archive = zipfile.ZipFile(path)
    except FileNotFoundError:
        raise VoiceFileError(f"{path} does not exist.") from None
    except _UNREADABLE as error:
        raise VoiceFileError(
            f"{path} is not a voice file, or its end is missing ({first_line(error)}). Copy or "
            "download it again."
        ) from error
    with archive:
        _check_members(path, archive.infolist(), size)
        voice = CheckedVoice(path, archive)
        if read_members:
            voice.check()
        yield voice


def refuse_large_directory(path: Path) -> None:
    """Raises BadZipFile before zipfile reads a directory of millions of members into memory."""
    with path.open("rb") as file:
        end_record = zipfile._EndRecData(file)  # type: ignore[attr-defined]
    # Field 5 is the directory's size.
    if end_record and end_record[5] > _MAX_DIRECTORY_BYTES:
        raise zipfile.BadZipFile(f"its directory has {end_record[5]:,} bytes")


def _check_members(path: Path, members: list[zipfile.ZipInfo], size: int) -> None:
    """Raises VoiceFileError for members that no voice file has, before any member is read."""
    names = [member.filename for member in members]
    total_bytes = sum(member.file_size for member in members)
    fault = None
    if len(members) > manifests.MAX_MEMBERS:
        fault = f"it has {len(members):,} members; at most {manifests.MAX_MEMBERS} are allowed"
    elif not members or names[0] != manifests.MANIFEST_FILE or members[0].header_offset != 0:
        fault = f"its first member is not {manifests.MANIFEST_FILE}"
    elif duplicates := [name for name in names if names.count(name) > 1]:
        fault = f"it has the member {excerpt(duplicates[0])} twice"
    elif faults := list(filter(None, map(_find_member_fault, members))):
        fault = faults[0]
    elif total_bytes > size:
        fault = f"its members have {total_bytes:,} bytes, more than the whole file ({size:,})"
    if fault:
        raise VoiceFileError(f"{path} is refused: {fault}.")


def _find_member_fault(member: zipfile.ZipInfo) -> str | None:
    """Why a voice file does not have such a member; None if it may."""
    name = excerpt(member.filename)
    if not manifests.is_member(member.filename):
        return f"it has the member {name}, which no voice has"
    if member.flag_bits & 1:
        return f"its member {name} is encrypted"
    if stat.S_IFMT(member.external_attr >> 16) not in (0, stat.S_IFREG):
        return f"its member {name} is a link or a device, not a file"
    if member.compress_type != zipfile.ZIP_STORED or member.compress_size != member.file_size:
        return f"its member {name} is compressed, which a voice file never is"
    return None
