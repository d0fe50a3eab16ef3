"""TranscriptEntry: one row of a transcript file."""

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from machine.errors import SotaqueError

EXTENSIONS = (".wav", ".flac", ".ogg", ".mp3")
DEFAULT_SPEAKER = "speaker"
_LONGEST_NAME_BYTES = 255


class DatasetError(SotaqueError):
    """A dataset that cannot be used; the sentence names file, line and what is allowed."""


@dataclass(frozen=True)
class TranscriptEntry:
    """One row of a transcript. path: where its recording is expected; name: how reports call it.

    validation: True or False where the dataset itself says so, else None.
    """

    name: str
    path: Path
    text: str
    speaker: str
    language: str
    validation: bool | None = None


def unsafe(name: str) -> str | None:
    """Why a name may not be opened, if so: it must stay inside the dataset."""
    path = PurePosixPath(name.replace("\\", "/"))
    if not name:
        return "the name of the clip is empty"
    if path.is_absolute() or (len(name) > 1 and name[1] == ":"):
        return "paths are relative to the dataset, not absolute"
    if ".." in path.parts:
        return "paths stay inside the dataset, without `..`"
    if "\0" in name or any(len(part.encode()) > _LONGEST_NAME_BYTES for part in path.parts):
        return "no file can be called so"
    return None
