"""TranscriptEntry: one row of a transcript file, and where its recording lies."""

import itertools
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from machine.errors import SotaqueError
from xtts.foreign_sound import FOREIGN_EXTENSIONS

EXTENSIONS = (".wav", ".flac", ".ogg", ".mp3")
DEFAULT_SPEAKER = "speaker"
# Coqui's max_wav_length: 255,995 samples.
LONGEST_SECONDS = 11.6
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


def relative_name(name: str, folder: Path) -> str:
    """An absolute path inside the dataset as a path relative to it; any other name as it is."""
    path = Path(name)
    if not path.is_absolute():
        return name
    for root in (folder.absolute(), folder.resolve()):
        if path.is_relative_to(root):
            return path.relative_to(root).as_posix()
    return name


def find_recording(folders: Sequence[Path], name: str) -> Path:
    """The recording called `name`: as it stands, or with the first extension that is there.

    Also as Windows writes paths, with its accents composed or not (an archive made on a Mac has
    them apart), and converted: `a.wav` for a row that says `a.m4a`.
    """
    suffix = PurePosixPath(name).suffix.lower()
    known = suffix in EXTENSIONS
    endings = ("",) if known else (*EXTENSIONS, "")
    plain = name.replace("\\", "/")
    composed, apart = (unicodedata.normalize(form, plain) for form in ("NFC", "NFD"))
    spellings = dict.fromkeys((name, plain, composed, apart))
    if suffix in FOREIGN_EXTENSIONS:
        spellings = dict.fromkeys((*(one[: -len(suffix)] for one in spellings), *spellings))
    for folder, spelling, ending in itertools.product(folders, spellings, endings):
        path: Path = folder / f"{spelling}{ending}"
        if path.is_file():
            return path
    return folders[0] / f"{name}{'' if known else EXTENSIONS[0]}"
