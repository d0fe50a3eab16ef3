"""Uploaded voices on disk, shared by replicas: adds, finds and deletes them.

    VOICES_DIR/<id>.wav       16-bit PCM, mono, as `api.voices.recordings` made it: the recording,
                              or the first of several
    VOICES_DIR/<id>/N.wav     the others, from 2 on
    VOICES_DIR/<id>/joined_<SHA-256>.wav
                              what is heard of several (`api.voices.joining`). Its name changes with
                              it, so that no process takes one for another
    VOICES_DIR/<id>.json      name, when, how long, SHA-256 of what is heard, quality, how many
                              recordings; written last: without it there is no voice, and until it
                              is there, a voice is what it was
    VOICES_DIR/latents/…      as `xtts.inference.latents_file` says
    VOICES_DIR/.lock          as `api.shared_folder` says

Ids are made here and looked up in what is on disk: what a caller writes never becomes a path.
"""

import hashlib
import re
import secrets
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from api.errors import APIError, shown
from api.schemas import VoiceRow
from api.shared_folder import changing, read, read_all
from api.voices.joining import joined_recording
from api.voices.recordings import DecodedRecording
from machine.storage.atomic import make_folder, remove_stale, replace_file, write_json
from machine.storage.hashes import sha256_of
from machine.text import plain_name
from xtts.inference import latents_file

MOST_VOICES = 1_000
MOST_RECORDINGS = 10
_ID = re.compile(r"[a-z0-9]{12}")
_HALF_SECONDS = 3600.0
_JOINED = "joined_"
SERVED = "default"
# Names of OpenAI's voices: programs send one without asking. All of them are the served voice.
OPENAI_VOICES = (
    "alloy", "ash", "ballad", "cedar", "coral", "echo", "fable", "marin", "nova", "onyx", "sage",
    "shimmer", "verse",
)  # fmt: skip


@dataclass(frozen=True)
class UploadedVoice:
    """duration_seconds: of what is heard, which is the recording or several joined; sha256: of its
    file; quality: as `api.voices.samples` measures it, None where an earlier version kept it;
    recordings: how many there are."""

    id: str
    name: str
    created: str
    duration_seconds: float
    sha256: str
    quality: Mapping[str, Any] | None = None
    recordings: int = 1

    def row(self) -> VoiceRow:
        """As /v1/voices tells it."""
        return VoiceRow(
            **asdict(self), origin="upload", preview=f"/v1/voices/{self.id}/preview.wav"
        )


class Voices:
    """The folder; read again for each question, since replicas write into it too."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def latents(self) -> Path:
        """Where the child keeps latents."""
        return self.folder / "latents"

    def all(self) -> list[UploadedVoice]:
        """Every voice, the oldest first."""
        voices = read_all(self.folder, self.get, ".json")
        return sorted(voices, key=lambda voice: (voice.created, voice.id))

    def get(self, identity: str) -> UploadedVoice | None:
        """The voice of an id; None where there is none, and for what cannot be an id."""
        if not _ID.fullmatch(identity) or not (self.folder / f"{identity}.wav").is_file():
            return None
        return read(UploadedVoice, self.folder / f"{identity}.json", identity)

    def find(self, identity: str) -> UploadedVoice:
        """Raises APIError (404), the same for an id that cannot be one."""
        voice = self.get(identity)
        if voice is None:
            text = "There is no voice of that id. /v1/voices lists them."
            raise APIError(404, "no_voice", text, param="voice")
        return voice

    def recording(self, voice: UploadedVoice) -> Path:
        """The file that is heard."""
        if voice.recordings == 1:
            return self.folder / f"{voice.id}.wav"
        return self.folder / voice.id / f"{_JOINED}{voice.sha256}.wav"

    def single_recordings(self, voice: UploadedVoice) -> list[Path]:
        """The file of each recording, as it was uploaded."""
        own = self.folder / voice.id
        others = [own / f"{number}.wav" for number in range(2, voice.recordings + 1)]
        return [self.folder / f"{voice.id}.wav", *others]

    def add(self, name: str, *recordings: DecodedRecording) -> UploadedVoice:
        """Keeps a voice of one recording, or of several that are combined. Raises APIError where
        the folder is full or cannot be written."""
        identity = secrets.token_hex(6)
        with changing(self.folder):
            if len(self.all()) >= MOST_VOICES:
                text = f"There are already {MOST_VOICES} voices, the limit. Delete one."
                raise APIError(409, "too_many_voices", text)
            self._remove_halves()
            created = datetime.now(UTC).isoformat(timespec="milliseconds")
            try:
                return self._write(UploadedVoice(identity, name, created, 0.0, ""), [], recordings)
            except BaseException:
                (self.folder / f"{identity}.wav").unlink(missing_ok=True)
                shutil.rmtree(self.folder / identity, ignore_errors=True)
                raise

    def extend(
        self, voice: UploadedVoice, recordings: Sequence[DecodedRecording]
    ) -> tuple[UploadedVoice, UploadedVoice]:
        """Adds recordings to a voice: what it was, and what it is. A kill leaves one of the two.

        The file that was heard stays an hour: who waits to speak was given it. Raises APIError
        where there would be too many, the voice was deleted meanwhile, or the folder cannot be
        written.
        """
        with changing(self.folder):
            before = self.find(voice.id)
            check_count(before, len(recordings))
            self._remove_halves()
            kept = [path.read_bytes() for path in self.single_recordings(before)]
            changed = self._write(before, kept, recordings)
            latents_file.delete(self.latents, before.sha256)
        return before, changed

    def undo(self, changed: UploadedVoice, before: UploadedVoice) -> None:
        """Makes a voice what it was, unless somebody has changed it since. Raises APIError where it
        was deleted meanwhile, or the folder cannot be written."""
        with changing(self.folder):
            found = self.find(changed.id)
            if found.sha256 == changed.sha256:
                write_json(
                    self.folder / f"{changed.id}.json", asdict(replace(before, name=found.name))
                )
                for path in self._strays(before):
                    self._remove_stray(path)

    def _write(
        self, voice: UploadedVoice, kept: Sequence[bytes], new: Sequence[DecodedRecording]
    ) -> UploadedVoice:
        """Writes new recordings behind those that are kept, then what is heard, then what says
        so."""
        count = len(kept) + len(new)
        heard = new[0] if count == 1 else joined_recording([*kept, *(one.wav for one in new)])
        changed = replace(
            voice, duration_seconds=round(heard.seconds, 3), quality=heard.quality,
            sha256=hashlib.sha256(heard.wav).hexdigest(), recordings=count,
        )  # fmt: skip
        if count > 1:
            make_folder(self.folder / voice.id)
        for path, one in zip(self.single_recordings(changed)[len(kept) :], new, strict=True):
            _write_file(path, one.wav)
        if count > 1:
            _write_file(self.recording(changed), heard.wav)
        write_json(self.folder / f"{voice.id}.json", asdict(changed))
        return changed

    def rename(self, voice: UploadedVoice, name: str) -> UploadedVoice:
        """Gives a voice another name. Raises APIError where it was deleted meanwhile, or the folder
        cannot be written."""
        with changing(self.folder):
            renamed = replace(self.find(voice.id), name=name)
            write_json(self.folder / f"{voice.id}.json", asdict(renamed))
        return renamed

    def remove(self, voice: UploadedVoice) -> None:
        """Deletes a voice and what was made of it. Raises APIError where it was deleted meanwhile,
        or the folder cannot be written."""
        with changing(self.folder):
            found = self.find(voice.id)
            # A single recording may have been heard alone before others were added.
            own = self.folder / voice.id
            files = [*self.single_recordings(found)[:1], *own.glob("*.wav")]
            heard = {found.sha256, *map(sha256_of, files)}
            # Latents last: a process that is listening to the recording looks for it afterwards.
            (self.folder / f"{voice.id}.json").unlink(missing_ok=True)
            (self.folder / f"{voice.id}.wav").unlink(missing_ok=True)
            if own.is_dir():
                shutil.rmtree(own)
            for sha256 in heard:
                latents_file.delete(self.latents, sha256)

    def _remove_halves(self) -> None:
        """Removes what killed writers and deletions left: a voice has two files, and if only one is
        left, no request can delete it. Only old files, because not every file system has locks."""
        remove_stale(self.folder, older_than_seconds=_HALF_SECONDS)
        whole = {".wav": ".json", ".json": ".wav"}
        for path in self.folder.iterdir():
            if _ID.fullmatch(path.stem) and (other := whole.get(path.suffix)):
                if _is_old(path) and not path.with_suffix(other).exists():
                    path.unlink()
            elif _ID.fullmatch(path.name) and path.is_dir():
                self._remove_old_of(path)

    def _remove_old_of(self, own: Path) -> None:
        """In the folder of a voice's recordings: what is not, or no longer, part of the voice."""
        remove_stale(own, older_than_seconds=_HALF_SECONDS)
        voice = self.get(own.name)
        if voice is not None:
            for path in filter(_is_old, self._strays(voice)):
                self._remove_stray(path)
        elif _is_old(own) and not own.with_suffix(".json").exists():
            shutil.rmtree(own)

    def _strays(self, voice: UploadedVoice) -> list[Path]:
        own = {self.recording(voice), *self.single_recordings(voice)}
        return [path for path in (self.folder / voice.id).glob("*.wav") if path not in own]

    def _remove_stray(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        if path.name.startswith(_JOINED):
            latents_file.delete(self.latents, path.stem.removeprefix(_JOINED))


def check_count(voice: UploadedVoice, more: int) -> None:
    """Raises APIError (409) where a voice would have too many recordings."""
    if voice.recordings + more > MOST_RECORDINGS:
        text = (
            f"The voice has {voice.recordings} recordings; with {more} more it would have more "
            f"than {MOST_RECORDINGS}, the limit. Add fewer, or make another voice of the best."
        )
        raise APIError(409, "too_many_recordings", text, param="file")


def _write_file(path: Path, data: bytes) -> None:
    replace_file(path, lambda file: file.write(data))


def _is_old(path: Path) -> bool:
    return time.time() - path.stat().st_mtime > _HALF_SECONDS


def is_served(voice: str) -> bool:
    """Whether this means the served voice whatever else there is: `default`, or OpenAI's names."""
    return voice == SERVED or voice in OPENAI_VOICES


def means_served(name: str) -> bool:
    """Whether this means the served voice, however it is written."""
    return is_served(plain_name(name))


def check_new_name(name: str) -> None:
    """Raises APIError (422) for a name that always means the served voice: programs send OpenAI's
    without asking, so a voice of that name could never be asked for by it."""
    if means_served(name):
        text = (
            f"{shown(name)} always means the served voice, as {', '.join((SERVED, *OPENAI_VOICES))}"
            " do. Choose another name."
        )
        raise APIError(422, "reserved_name", text, param="name")


def is_name_of(wanted: str, uploaded: Sequence[UploadedVoice]) -> bool:
    """Whether an uploaded voice has this name, in any case."""
    return plain_name(wanted) in {plain_name(voice.name) for voice in uploaded}


def find_by_name(
    wanted: str, served_name: str, uploaded: Sequence[UploadedVoice], param: str = "voice"
) -> UploadedVoice | None:
    """The voice of that name, in any case; None: the served one. A name may end in `.wav`, as
    clients write it that know voices as files. Raises APIError, which names `param`: 404 where
    there is none, 409 where there are several, 400 for a mixture of several."""
    for name in dict.fromkeys((plain_name(wanted), plain_name(wanted.removesuffix(".wav")))):
        matches = [voice for voice in uploaded if plain_name(voice.name) == name]
        if len(matches) > 1:
            ids = ", ".join(voice.id for voice in matches)
            text = f"{len(matches)} voices are called {shown(wanted)}. Name one by its id: {ids}."
            raise APIError(409, "ambiguous_voice", text, param=param)
        if matches:
            return matches[0]
        if is_served(name) or name == plain_name(served_name):
            return None
    if "+" in wanted or "(" in wanted:
        text = (
            f"{param} is {shown(wanted)}, a mixture of voices. XTTS speaks with one voice: name "
            "one of /v1/voices."
        )
        raise APIError(400, "unsupported", text, param=param)
    text = "There is no voice of that id or name. /v1/voices lists them."
    raise APIError(404, "no_voice", text, param=param)


def labels(
    served_name: str, uploaded: Sequence[UploadedVoice], speakers: Iterable[str] = ()
) -> dict[str, str]:
    """For lists of names only: label -> id, the served voice first, then its named speakers. A
    label is a voice's name where that finds it again, else its id."""
    known = Counter(plain_name(voice.name) for voice in uploaded)
    listed = {SERVED if plain_name(served_name) in known else served_name: SERVED}
    listed |= {name: name for name in speakers if plain_name(name) not in known}
    for voice in uploaded:
        name = plain_name(voice.name)
        plain = known[name] == 1 and not is_served(name) and not name.endswith(".wav")
        listed[voice.name if plain else voice.id] = voice.id
    return listed
