"""The recordings and the text of a dataset on disk.

recordings/<id><ending>       the recording
recordings/<id>.json          its name and size; written last: a recording without it is ignored
recordings/.arriving-…        an upload in progress
"""

import contextlib
import functools
import hashlib
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, get_args

from api.arriving import bytes_below, remove_arriving, require_free
from api.errors import APIError, excerpt
from api.shared_folder import now, read, read_all
from extras.common.named_folders import ID, free_id
from extras.studio.datasets.dataset_store import Datasets, UploadedDataset, changing_dataset
from extras.studio.datasets.prompts import refuse_read_aloud
from machine.storage.files import decoded_text, replace_file, write_json
from xtts.sound_endings import SOUND_ENDINGS, ending_of

TextKind = Literal["txt", "srt", "vtt", "sbv", "lab", "textgrid", "json", "tsv"]
TEXT_KINDS: tuple[TextKind, ...] = get_args(TextKind)
MAX_RECORDINGS = 200


@dataclass(frozen=True)
class UploadedRecording:
    """A recording of a dataset, with the name of the uploaded file."""

    folder: Path
    id: str
    name: str
    bytes: int
    created: str

    @property
    def path(self) -> Path:
        """The audio file."""
        return self.folder / f"{self.id}{ending_of(self.name)}"


def recordings(dataset: UploadedDataset) -> list[UploadedRecording]:
    """The recordings of a dataset, sorted by name; numbers by value, so 2 comes before 10."""
    uploaded = read_all(dataset.folder / "recordings", lambda name: _read_recording(dataset, name), ".json")
    return sorted(uploaded, key=lambda recording: (_natural_key(Path(recording.name).stem), recording.name))


def find_recording(dataset: UploadedDataset, identity: str) -> UploadedRecording:
    """The recording of this id. Raises APIError (404), also for an invalid id."""
    recording = _read_recording(dataset, identity)
    if recording is None:
        text = "The dataset has no recording with this id."
        raise APIError(404, "no_recording", text, param="recording")
    return recording


def check_new(dataset: UploadedDataset, name: str) -> set[str]:
    """The ids in use. Raises APIError if the recording is not allowed: its format is not supported,
    its name is in use, the dataset is read aloud, or it has too many recordings."""
    if not ending_of(name):
        text = f"{excerpt(name)} is not a recording by its ending. Use {', '.join(SOUND_ENDINGS)}."
        raise APIError(422, "not_a_recording", text, param="name")
    refuse_read_aloud(dataset)
    existing = recordings(dataset)
    if any(recording.name == name for recording in existing):
        text = f"Another recording is already called {excerpt(name)}. Delete it, or rename this one."
        raise APIError(409, "other_recording", text, param="name")
    if len(existing) >= MAX_RECORDINGS:
        text = f"A dataset can hold at most {MAX_RECORDINGS} recordings."
        raise APIError(409, "too_many_recordings", text)
    return {recording.id for recording in existing}


def add(datasets: Datasets, dataset: UploadedDataset, name: str, path: Path) -> UploadedRecording:
    """Makes a recording of an uploaded file in the folder of recordings. Raises like `check_new`
    and `check_room`."""
    with changing_dataset(dataset):
        identity = free_id(Path(name).stem, "recording", check_new(dataset, name))
        check_room(datasets)
        recording = UploadedRecording(path.parent, identity, name, path.stat().st_size, now())
        path.rename(recording.path)
        fields = asdict(recording)
        del fields["folder"]
        write_json(path.parent / f"{identity}.json", fields)
    return recording


def check_room(datasets: Datasets, more_bytes: int = 0) -> None:
    """Raises APIError (507) if `more_bytes` exceed DATASETS_MAX_GB or the free disk space."""
    if (used := used_bytes(datasets)) + more_bytes > datasets.max_bytes:
        text = (
            f"Datasets take {used:,} bytes. This upload needs {more_bytes:,} more, and "
            f"{datasets.max_bytes:,} are allowed. Delete data, or raise DATASETS_MAX_GB."
        )
        raise APIError(507, "no_space", text)
    require_free(datasets.folder, more_bytes)


def used_bytes(datasets: Datasets) -> int:
    """The size of all datasets, including uploads in progress."""
    return sum(bytes_below(dataset.folder) for dataset in datasets.all())


def remove_leftovers(dataset: UploadedDataset) -> None:
    """Removes remains of killed uploads, and unfinished uploads of earlier versions."""
    remove_arriving(dataset.folder / "recordings")
    for part in (dataset.folder / "recordings").glob("*.part"):
        part.unlink(missing_ok=True)


def remove_recording(dataset: UploadedDataset, identity: str) -> None:
    """Deletes a recording. Raises APIError."""
    find_recording(dataset, identity)
    with changing_dataset(dataset, refuse_while_cut=True):
        recording = find_recording(dataset, identity)
        (recording.folder / f"{recording.id}.json").unlink(missing_ok=True)
        recording.path.unlink(missing_ok=True)


def text_of(dataset: UploadedDataset) -> Path | None:
    """The file of the text, if there is one."""
    paths = (dataset.folder / f"text.{kind}" for kind in TEXT_KINDS)
    return next((path for path in paths if path.is_file()), None)


def check_text(content: bytes) -> None:
    """Raises APIError (422) if `train cut` could not read the text."""
    try:
        decoded = decoded_text(content)
    except UnicodeDecodeError as error:
        text = f"The text is not UTF-8 (byte {error.start:,}). Save it as plain text in UTF-8."
        raise APIError(422, "not_a_text", text) from error
    if "\0" in decoded:
        text = "The text holds NUL characters. Save it as plain text in UTF-8."
        raise APIError(422, "not_a_text", text)


def put_text(dataset: UploadedDataset, kind: str | None = None, content: bytes = b"") -> None:
    """Replaces the text of the recordings; without a kind, only deletes it. Raises APIError."""
    with changing_dataset(dataset, refuse_while_cut=True):
        refuse_read_aloud(dataset)
        if kind is not None:
            replace_file(dataset.folder / f"text.{kind}", lambda file: file.write(content))
        for other in TEXT_KINDS:
            if other != kind:
                (dataset.folder / f"text.{other}").unlink(missing_ok=True)


def signature(dataset: UploadedDataset) -> str:
    """A hash of the inputs of a cut as they are now: language, recordings and text."""
    parts = [dataset.language]
    parts += [f"{recording.id} {recording.created} {recording.bytes}" for recording in recordings(dataset)]
    if (text := text_of(dataset)) is not None:
        with contextlib.suppress(OSError):
            parts.append(f"{text.suffix} {hashlib.sha256(text.read_bytes()).hexdigest()}")
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _read_recording(dataset: UploadedDataset, identity: str) -> UploadedRecording | None:
    folder = dataset.folder / "recordings"
    if not ID.fullmatch(identity):
        return None
    make = functools.partial(UploadedRecording, folder)
    recording = read(make, folder / f"{identity}.json", identity)
    return recording if recording and recording.path.is_file() else None


def _natural_key(name: str) -> list[tuple[int, str]]:
    """A sort key that puts "tape 2" before "tape 10"."""
    parts = re.findall(r"\d+|\D+", name.casefold())
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]
