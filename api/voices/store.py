"""Uploaded voices on disk, shared by replicas; how many recordings one voice may have.

    VOICES_DIR/<id>.wav       the recording, or the first of several: 16-bit PCM, mono, as
                              `api.voices.recordings` made it
    VOICES_DIR/<id>/N.wav     the others, from 2 on
    VOICES_DIR/<id>/joined_<SHA-256>.wav
                              the reference joined from several (`join_recordings`). The hash in
                              its name keeps processes from confusing two versions
    VOICES_DIR/<id>.json      name, time, and the reference's length, SHA-256 and quality, and the
                              number of recordings; written last, to commit a new or changed voice
    VOICES_DIR/latents/…      see `xtts.inference.latents_file`
    VOICES_DIR/.lock          see `api.shared_folder`

Ids are made here. A caller's text becomes part of a path only if it has the form of an id.
"""

import contextlib
import hashlib
import re
import secrets
import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import BinaryIO

from api.errors import APIError, excerpt
from api.schemas import OPENAI_VOICES, SERVED, VoiceRow, is_served, means_served
from api.shared_folder import changing, now, read, read_all
from api.voices.recordings import DecodedRecording, join_recordings
from machine.storage.checksums import sha256_of
from machine.storage.files import JsonObject, make_folder, remove_stale, replace_file, write_json
from machine.text import plain_name
from xtts.inference import latents_file

MAX_VOICES = 1_000
MAX_RECORDINGS = 10
_ID = re.compile(r"[a-z0-9]{12}")
# Leftovers of killed writers are removed at this age.
_LEFTOVER_SECONDS = 3600.0
_JOINED_PREFIX = "joined_"
# Names that the served voice had before another epoch was served; programs may have stored them.
_FORMER_NAMES = re.compile(r"demo|epoch \d+( at \d+%)? \([0-9a-f]{8}\)|base of .+ \([0-9a-f]{8}\)")
# Kokoro's mixtures: `a+b`, `a(2)+b(1)`, `a(0.5)`.
_MIXTURE_PART = r"[^+()]+(\([\d.]+\))?"
_MIXTURE = re.compile(rf"(?=.*[+(]){_MIXTURE_PART}(\+{_MIXTURE_PART})*")


@dataclass(frozen=True)
class UploadedVoice:
    """An uploaded voice. Its reference file is the recording, or several joined.

    Attributes:
        duration_seconds, sha256: The length and the hash of the reference file.
        quality: As `api.voices.samples` measures it; None if an earlier version stored it.
        recordings: The number of recordings.
    """

    id: str
    name: str
    created: str
    duration_seconds: float
    sha256: str
    quality: JsonObject | None = None
    recordings: int = 1

    def row(self) -> VoiceRow:
        """The voice as /v1/voices lists it."""
        return VoiceRow(**asdict(self), origin="upload", preview=f"/v1/voices/{self.id}/preview.wav")


class Voices:
    """The folder of uploaded voices, read again for each call because replicas change it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def latents_folder(self) -> Path:
        """The folder in which the speaking process keeps latents."""
        return self.folder / "latents"

    def all(self) -> list[UploadedVoice]:
        """Every voice, the oldest first."""
        voices = read_all(self.folder, self.get, ".json")
        return sorted(voices, key=lambda voice: (voice.created, voice.id))

    def get(self, voice_id: str) -> UploadedVoice | None:
        """The voice with this id; None if it is missing or the id is invalid."""
        if not _ID.fullmatch(voice_id) or not (self.folder / f"{voice_id}.wav").is_file():
            return None
        return read(UploadedVoice, self.folder / f"{voice_id}.json", voice_id)

    def find(self, voice_id: str) -> UploadedVoice:
        """The voice with this id. Raises APIError (404), also for an invalid id."""
        voice = self.get(voice_id)
        if voice is None:
            text = "There is no voice with this id. /v1/voices lists them."
            raise APIError(404, "no_voice", text, param="voice")
        return voice

    def reference_path(self, voice: UploadedVoice) -> Path:
        """The reference file of a voice."""
        if voice.recordings == 1:
            return self.folder / f"{voice.id}.wav"
        return self.folder / voice.id / f"{_JOINED_PREFIX}{voice.sha256}.wav"

    def recording_paths(self, voice: UploadedVoice) -> list[Path]:
        """The file of each uploaded recording."""
        folder = self.folder / voice.id
        others = [folder / f"{number}.wav" for number in range(2, voice.recordings + 1)]
        return [self.folder / f"{voice.id}.wav", *others]

    def add(self, name: str, *recordings: DecodedRecording) -> UploadedVoice:
        """Stores a voice of one recording, or of several joined. Raises APIError if its name is
        taken, or the folder is full or cannot be written."""
        voice_id = secrets.token_hex(6)
        with changing(self.folder):
            if len(self.all()) >= MAX_VOICES:
                text = f"There are already {MAX_VOICES} voices, the limit. Delete one."
                raise APIError(409, "too_many_voices", text)
            self._refuse_taken_name(name)
            self._remove_leftovers()
            try:
                return self._write(UploadedVoice(voice_id, name, now(), 0.0, ""), [], recordings)
            except BaseException:
                (self.folder / f"{voice_id}.wav").unlink(missing_ok=True)
                shutil.rmtree(self.folder / voice_id, ignore_errors=True)
                raise

    def extend(
        self, voice: UploadedVoice, recordings: Sequence[DecodedRecording]
    ) -> tuple[UploadedVoice, UploadedVoice]:
        """Adds recordings to a voice; returns it before and after. A kill leaves one of the two.

        The old reference file is kept for an hour, because waiting requests use it. Raises APIError
        if there would be too many recordings, the voice was deleted meanwhile, or the folder cannot
        be written.
        """
        with changing(self.folder):
            previous = self.find(voice.id)
            check_count(previous, len(recordings))
            self._remove_leftovers()
            wavs = [path.read_bytes() for path in self.recording_paths(previous)]
            changed = self._write(previous, wavs, recordings)
            latents_file.delete(self.latents_folder, previous.sha256)
        return previous, changed

    def _write(
        self, voice: UploadedVoice, stored_wavs: Sequence[bytes], added: Sequence[DecodedRecording]
    ) -> UploadedVoice:
        """Writes the added recordings, then the reference, then the JSON file, which commits them."""
        count = len(stored_wavs) + len(added)
        wavs = [*stored_wavs, *(recording.wav for recording in added)]
        reference = added[0] if count == 1 else join_recordings(wavs)
        changed = replace(
            voice,
            duration_seconds=round(reference.seconds, 3),
            quality=reference.quality,
            sha256=hashlib.sha256(reference.wav).hexdigest(),
            recordings=count,
        )
        if count > 1:
            make_folder(self.folder / voice.id)
        for path, recording in zip(self.recording_paths(changed)[len(stored_wavs) :], added, strict=True):
            replace_file(path, partial(_write_bytes, recording.wav))
        if count > 1:
            replace_file(self.reference_path(changed), partial(_write_bytes, reference.wav))
        write_json(self.folder / f"{voice.id}.json", asdict(changed))
        return changed

    def rename(self, voice: UploadedVoice, name: str) -> UploadedVoice:
        """Renames a voice. Raises APIError if the name is taken, the voice was deleted meanwhile,
        or the folder cannot be written."""
        with changing(self.folder):
            renamed = replace(self.find(voice.id), name=name)
            self._refuse_taken_name(name, except_id=voice.id)
            write_json(self.folder / f"{voice.id}.json", asdict(renamed))
        return renamed

    def _refuse_taken_name(self, name: str, except_id: str = "") -> None:
        """Raises APIError (409) if another voice has this name: no request could name either."""
        for voice in self.all():
            if voice.id != except_id and plain_name(voice.name) == plain_name(name):
                text = (
                    f"There is already a voice {excerpt(voice.name)} ({voice.id}). Choose another "
                    "name, or add the recording to that voice."
                )
                raise APIError(409, "name_taken", text, param="name")

    def remove(self, voice: UploadedVoice) -> None:
        """Deletes a voice with its files and latents. Raises APIError if it was deleted meanwhile,
        or the folder cannot be written."""
        with changing(self.folder):
            voice = self.find(voice.id)
            # The first recording may have been the reference before others were added.
            folder = self.folder / voice.id
            files = [*self.recording_paths(voice)[:1], *folder.glob("*.wav")]
            hashes = {voice.sha256, *map(sha256_of, files)}
            # Latents last: a process that computes them checks the recording afterwards.
            (self.folder / f"{voice.id}.json").unlink(missing_ok=True)
            (self.folder / f"{voice.id}.wav").unlink(missing_ok=True)
            if folder.is_dir():
                shutil.rmtree(folder)
            for sha256 in hashes:
                latents_file.delete(self.latents_folder, sha256)

    def _remove_leftovers(self) -> None:
        """Removes what killed writers and deletions have left: files that belong to no voice. Only
        old ones, because not every file system has locks, and requests may wait for a reference.
        The recordings of a voice whose JSON file is damaged stay."""
        remove_stale(self.folder, older_than_seconds=_LEFTOVER_SECONDS)
        for voice_id in {path.stem for path in self.folder.iterdir() if _ID.fullmatch(path.stem)}:
            folder, wav = self.folder / voice_id, self.folder / f"{voice_id}.wav"
            json_path, voice = wav.with_suffix(".json"), self.get(voice_id)
            remove_stale(folder, older_than_seconds=_LEFTOVER_SECONDS)
            if voice is None and json_path.exists() and wav.exists():
                continue
            needed = (
                {wav, json_path, self.reference_path(voice), *self.recording_paths(voice)} if voice else ()
            )
            was_old = _is_old(folder)
            for path in (wav, json_path, *folder.glob("*.wav")):
                if path not in needed and _is_old(path):
                    path.unlink(missing_ok=True)  # a replica on a file system without locks
                    if path.name.startswith(_JOINED_PREFIX):
                        latents_file.delete(self.latents_folder, path.stem.removeprefix(_JOINED_PREFIX))
            if was_old:
                with contextlib.suppress(OSError):  # not empty
                    folder.rmdir()


def check_count(voice: UploadedVoice, num_added: int) -> None:
    """Raises APIError (409) if a voice would have too many recordings."""
    if voice.recordings + num_added > MAX_RECORDINGS:
        text = (
            f"The voice has {voice.recordings} recordings; with {num_added} more it would have more "
            f"than {MAX_RECORDINGS}, the limit. Add fewer, or make another voice of the best."
        )
        raise APIError(409, "too_many_recordings", text, param="file")


def _write_bytes(data: bytes, file: BinaryIO) -> None:
    file.write(data)


def _is_old(path: Path) -> bool:
    return path.exists() and time.time() - path.stat().st_mtime > _LEFTOVER_SECONDS


def check_new_name(name: str) -> None:
    """Raises APIError (422) for a reserved name: no request could reach a voice by it."""
    if means_served(name):
        text = (
            f"{excerpt(name)} always means the served voice, as {', '.join((SERVED, *OPENAI_VOICES))}"
            " do. Choose another name."
        )
        raise APIError(422, "reserved_name", text, param="name")


def find_by_name(
    voice_name: str, served_name: str, uploaded: Sequence[UploadedVoice], param: str = "voice"
) -> UploadedVoice | None:
    """The uploaded voice with this name, ignoring case; None for the served voice, also by a name
    that it had before another epoch was served. The name may end in `.wav`, because some clients
    treat voices as files. Raises APIError for `param`: 404 if no voice has this name, 409 if several
    have it, 400 for a mixture of voices."""
    for name in dict.fromkeys((plain_name(voice_name), plain_name(voice_name.removesuffix(".wav")))):
        matches = [voice for voice in uploaded if plain_name(voice.name) == name]
        if len(matches) > 1:
            ids = ", ".join(voice.id for voice in matches)
            text = f"{len(matches)} voices are called {excerpt(voice_name)}. Name one by its id: {ids}."
            raise APIError(409, "ambiguous_voice", text, param=param)
        if matches:
            return matches[0]
        if is_served(name) or name == plain_name(served_name) or _FORMER_NAMES.fullmatch(name):
            return None
    if _MIXTURE.fullmatch(voice_name):
        text = (
            f"{param} is {excerpt(voice_name)}, a mixture of voices. XTTS speaks with one voice: name "
            "one of /v1/voices."
        )
        raise APIError(400, "unsupported", text, param=param)
    text = "There is no voice with this id or name. /v1/voices lists them."
    raise APIError(404, "no_voice", text, param=param)
