"""The recordings and the text of a dataset on disk; an interrupted upload can be resumed.

    recordings/<id>.json          what was announced: name and size; without it there is none
    recordings/<id><ending>.part  what has arrived: its size is the offset of the next piece
    recordings/<id><ending>       the whole recording

Every piece says its offset, as in tus (https://tus.io/protocols/resumable-upload). What arrived
stays, whatever ends the sender, the connection or this process.
"""

import asyncio
import codecs
import contextlib
import fcntl
import functools
import hashlib
import os
import re
import threading
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from pathlib import Path

from api.disk_space import KEPT_FREE_BYTES, bytes_below, free_bytes
from api.errors import APIError, shown
from api.shared_folder import ID, free_id, now, read, read_all
from extras.studio.datasets.prompts import refuse_read_aloud
from extras.studio.datasets.store import Datasets, UploadedDataset, changing
from machine.storage.atomic import is_full, replace_file, sync_folder, write_json
from xtts.sound_endings import SOUND_ENDINGS, ending_of

TEXT_KINDS = ("txt", "srt", "vtt", "lab", "textgrid")
MOST_RECORDINGS = 200
# What a body is written in: each write waits for a thread.
_WRITE_BYTES = 1 << 20


@dataclass(frozen=True)
class UploadedRecording:
    """A recording as it was announced. name: as the person calls its file; bytes: all of it."""

    folder: Path
    id: str
    name: str
    bytes: int
    created: str

    @property
    def path(self) -> Path:
        """Where the whole recording is, or will be."""
        return self.folder / f"{self.id}{ending_of(self.name)}"

    @property
    def part(self) -> Path:
        """Where it arrives."""
        return self.path.with_name(f"{self.path.name}.part")

    @property
    def received(self) -> int:
        """How many bytes have arrived."""
        for path in (self.path, self.part):
            with contextlib.suppress(OSError):
                return path.stat().st_size
        return 0

    @property
    def whole(self) -> bool:
        return self.path.is_file()


def recordings(dataset: UploadedDataset) -> list[UploadedRecording]:
    """Those of a dataset in the order of their names, numbers by their value: 2 before 10."""
    kept = read_all(dataset.folder / "recordings", lambda name: _read(dataset, name), ".json")
    return sorted(kept, key=lambda one: (_natural(Path(one.name).stem), one.name))


def find_recording(dataset: UploadedDataset, identity: str) -> UploadedRecording:
    """Raises APIError (404), the same for an id that cannot be one."""
    recording = _read(dataset, identity)
    if recording is None:
        text = "The dataset has no recording of that id."
        raise APIError(404, "no_recording", text, param="recording")
    return recording


def announce(
    datasets: Datasets, dataset: UploadedDataset, name: str, num_bytes: int
) -> UploadedRecording:
    """The recording of that name and size: a new one, or the one that has begun to arrive.

    Raises APIError: It is of no kind that is read, another one has its name, or there is no room.
    """
    if not ending_of(name):
        text = f"{shown(name)} is not a recording by its ending. Use {', '.join(SOUND_ENDINGS)}."
        raise APIError(422, "not_a_recording", text, param="name")
    with changing(dataset):
        refuse_read_aloud(dataset)
        known = recordings(dataset)
        if same := next((one for one in known if one.name == name), None):
            if same.bytes != num_bytes:
                text = (
                    f"Another recording of {same.bytes:,} bytes is already called {shown(name)}. "
                    "Delete it first, or rename this one."
                )
                raise APIError(409, "other_recording", text, param="name")
            _finish(same)
            return same
        if len(known) >= MOST_RECORDINGS:
            text = f"A dataset can hold at most {MOST_RECORDINGS} recordings."
            raise APIError(409, "too_many_recordings", text)
        check_room(datasets, num_bytes)
        folder, taken = dataset.folder / "recordings", {one.id for one in known}
        identity = free_id(Path(name).stem, "recording", taken)
        made = UploadedRecording(folder, identity, name, num_bytes, now())
        about = asdict(made)
        del about["folder"]
        # Of a recording whose deletion was killed.
        made.part.unlink(missing_ok=True)
        write_json(folder / f"{identity}.json", about)
    return made


def check_room(datasets: Datasets, num_bytes: int) -> None:
    """Raises APIError (507) where so much more would be more than the setting or the disk has."""
    used, announced = space(datasets)
    if used + announced + num_bytes > datasets.most_bytes:
        text = (
            f"Datasets take {used + announced:,} bytes. This upload needs {num_bytes:,} more, and "
            f"{datasets.most_bytes:,} are allowed. Delete data, or raise DATASETS_MAX_GB."
        )
        raise APIError(507, "no_space", text)
    free = free_bytes(datasets.folder)
    if num_bytes + announced + KEPT_FREE_BYTES > free:
        text = (
            f"The disk has {free:,} bytes left. Uploads need {num_bytes + announced:,}, and "
            f"{KEPT_FREE_BYTES:,} stay free. Free some space."
        )
        raise APIError(507, "no_space", text)


def space(datasets: Datasets) -> tuple[int, int]:
    """Bytes that all datasets take, and bytes that are announced and have not arrived."""
    used = announced = 0
    for dataset in datasets.all():
        used += bytes_below(dataset.folder)
        announced += sum(max(0, one.bytes - one.received) for one in recordings(dataset))
    return used, announced


class Arrival:
    """A recording that is open to take a piece at `offset`. Blocks: in a thread.

    Raises:
        APIError: Somebody else sends it too, it is whole, or its next byte is another one.
        OSError: It cannot be opened.
    """

    def __init__(self, recording: UploadedRecording, offset: int) -> None:
        self._recording = recording
        # A task that is cancelled leaves its thread writing.
        self._writing = threading.Lock()
        self._file = os.open(recording.part, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            self._take_turn()
            self._check(offset)
        except BaseException:
            os.close(self._file)
            raise

    def write(self, piece: bytes) -> None:
        """Appends. Raises APIError on a full disk, and for more than was announced."""
        with self._writing:
            self._write(piece)

    def _write(self, piece: bytes) -> None:
        size = os.fstat(self._file).st_size
        if size + len(piece) > self._recording.bytes:
            text = f"The upload is longer than the announced {self._recording.bytes:,} bytes."
            raise APIError(409, "longer_than_announced", text)
        if free_bytes(self._recording.folder) < KEPT_FREE_BYTES + len(piece):
            raise _disk_full(size)
        view = memoryview(piece)
        try:
            while view:
                view = view[os.pwrite(self._file, view, os.fstat(self._file).st_size) :]
        except OSError as error:
            if is_full(error):
                raise _disk_full(os.fstat(self._file).st_size) from error
            text = f"The recording cannot be written ({error.strerror})."
            raise APIError(507, "not_kept", text) from error

    def close(self, last: bytes = b"") -> None:
        """Appends the last of it and keeps what has arrived; a whole recording gets its name."""
        try:
            if last:
                self.write(last)
        finally:
            with self._writing:
                with contextlib.suppress(OSError):
                    os.fsync(self._file)
                _finish(self._recording)
                os.close(self._file)

    def _take_turn(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            text = "Another piece of this recording is arriving. Send one piece at a time."
            raise APIError(409, "upload_busy", text, retry_after=1) from None
        except OSError:
            return  # a file system without locks: the offsets are compared all the same

    def _check(self, offset: int) -> None:
        size = os.fstat(self._file).st_size
        if self._recording.whole:
            self._recording.part.unlink(missing_ok=True)
            text = "The recording is already complete."
            raise APIError(409, "wrong_offset", text)
        if offset != size:
            text = f"{size:,} bytes of the recording have arrived. Continue from there."
            raise APIError(409, "wrong_offset", text)


async def receive(
    dataset: UploadedDataset, identity: str, offset: int, stream: AsyncIterator[bytes]
) -> None:
    """Writes a piece as it arrives. What came before it broke off, for whatever reason, stays.

    Raises APIError as `Arrival`, and whatever ends the stream.
    """
    arrival = await asyncio.to_thread(_arrival, dataset, identity, offset)
    held = bytearray()
    try:
        async for part in stream:
            held += part
            if len(held) >= _WRITE_BYTES:
                taken, held = bytes(held), bytearray()
                await asyncio.to_thread(arrival.write, taken)
    finally:
        # To its end also where this task is cancelled.
        await asyncio.shield(asyncio.to_thread(arrival.close, bytes(held)))


def _arrival(dataset: UploadedDataset, identity: str, offset: int) -> Arrival:
    # What was deleted meanwhile is not made again.
    with changing(dataset):
        return Arrival(find_recording(dataset, identity), offset)


def remove_recording(dataset: UploadedDataset, identity: str) -> None:
    """Deletes it, whole or not. Raises APIError."""
    find_recording(dataset, identity)
    with changing(dataset, uncut=True):
        recording = find_recording(dataset, identity)
        (recording.folder / f"{recording.id}.json").unlink(missing_ok=True)
        recording.part.unlink(missing_ok=True)
        recording.path.unlink(missing_ok=True)


def text_of(dataset: UploadedDataset) -> Path | None:
    """The file of the text, if there is one."""
    paths = (dataset.folder / f"text.{kind}" for kind in TEXT_KINDS)
    return next((path for path in paths if path.is_file()), None)


def check_text(content: bytes) -> None:
    """Raises APIError (422) for what `train cut` could not read as a text."""
    wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        decoded = content.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        text = f"The text is not UTF-8 (byte {error.start:,}). Save it as plain text in UTF-8."
        raise APIError(422, "not_a_text", text) from error
    if "\0" in decoded:
        text = "The text holds NUL characters. Save it as plain text in UTF-8."
        raise APIError(422, "not_a_text", text)


def put_text(dataset: UploadedDataset, kind: str | None = None, content: bytes = b"") -> None:
    """Takes the place of any text before, which without a kind is only deleted. Raises APIError."""
    with changing(dataset, uncut=True):
        refuse_read_aloud(dataset)
        if kind is not None:
            replace_file(dataset.folder / f"text.{kind}", lambda file: file.write(content))
        for other in TEXT_KINDS:
            if other != kind:
                (dataset.folder / f"text.{other}").unlink(missing_ok=True)


def signature(dataset: UploadedDataset) -> str:
    """What a cut depends on, as it is now: another one, another cut."""
    parts = [dataset.language]
    parts += [f"{one.id} {one.created} {one.bytes}" for one in recordings(dataset) if one.whole]
    if (text := text_of(dataset)) is not None:
        with contextlib.suppress(OSError):
            parts.append(f"{text.suffix} {hashlib.sha256(text.read_bytes()).hexdigest()}")
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _finish(recording: UploadedRecording) -> None:
    """Gives a recording that has arrived its name; a kill may have come before that."""
    with contextlib.suppress(OSError):
        if not recording.whole and recording.part.stat().st_size == recording.bytes:
            os.replace(recording.part, recording.path)
            sync_folder(recording.folder)


def _disk_full(received: int) -> APIError:
    text = (
        f"The disk is full, but for {KEPT_FREE_BYTES:,} bytes that stay free. "
        f"{received:,} bytes of the recording have arrived and are kept. Free some space, "
        "and continue from there."
    )
    return APIError(507, "no_space", text)


def _read(dataset: UploadedDataset, identity: str) -> UploadedRecording | None:
    folder = dataset.folder / "recordings"
    if not ID.fullmatch(identity):
        return None
    make = functools.partial(UploadedRecording, folder)
    recording = read(make, folder / f"{identity}.json", identity)
    return recording if recording and ending_of(recording.name) else None


def _natural(name: str) -> list[tuple[int, str]]:
    """tape 2 before tape 10."""
    parts = re.findall(r"\d+|\D+", name.casefold())
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]
