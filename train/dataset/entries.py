"""One row of a transcript file: its line, its fields, and where its recording lies.

Text files are read as people save them: UTF-8 and UTF-16 by their byte-order mark, UTF-8 without
one. A field may stand in quotation marks, within which the delimiter means nothing and `""` is one
mark.
"""

import codecs
import itertools
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from machine.errors import SotaqueError
from xtts.foreign_sound import FOREIGN_EXTENSIONS

EXTENSIONS = (".wav", ".flac", ".ogg", ".mp3")
SOUND_EXTENSIONS = (*EXTENSIONS, *FOREIGN_EXTENSIONS)
DEFAULT_SPEAKER = "speaker"
# Coqui's max_wav_length: 255,995 samples.
LONGEST_CLIP_SECONDS = 11.6
_LONGEST_NAME_BYTES = 255
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


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


# Text files


def read_text(path: Path) -> str:
    """The text of a file. Raises DatasetError when it is in another encoding, and OSError."""
    content = path.read_bytes()
    encoding = "utf-16" if content.startswith(_UTF16_MARKS) else "utf-8-sig"
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise DatasetError(
            f"{path}, line {line}: byte {error.object[error.start]:#x} is not "
            f"{encoding.removesuffix('-sig').upper()}. Save the file as UTF-8."
        ) from error


def fields(line: str, delimiter: str) -> list[str]:
    """The fields of a line, stripped, without the quotation marks around a whole field.

    `"Stop," he said.` keeps its marks: they do not stand around the field. So does a field whose
    mark does not close in its line.
    """
    end = re.escape(delimiter)
    field = re.compile(rf'[^\S\t]*"((?:[^"]|"")*)"\s*(?={end}|$)|([^{end}]*)')
    values, place = [], 0
    while place <= len(line):
        match = field.match(line, place)
        assert match is not None  # the second branch also matches nothing
        quoted = match[1] is not None
        values.append((match[1].replace('""', '"') if quoted else match[2]).strip())
        place = match.end() + 1
    return values


# Recordings


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
        return "this cannot be a file name"
    return None


def relative_name(name: str, folder: Path) -> str:
    """An absolute path inside the dataset as a path relative to it; any other name as it is."""
    if not Path(name).is_absolute():  # nearly every row, and resolving takes longer than the rest
        return name
    for root in (folder.absolute(), folder.resolve()):
        if Path(name).is_relative_to(root):
            return Path(name).relative_to(root).as_posix()
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
