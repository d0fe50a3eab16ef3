"""One row of a transcript: its fields and its recording; and which files are transcripts.

Text files are UTF-8, or UTF-16 with a byte-order mark.
"""

import os
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath, PureWindowsPath

from machine.errors import SotaqueError
from machine.storage.files import decoded_text
from machine.text import enumeration
from xtts.sound_endings import DECODED, FOREIGN, SOUND_ENDINGS, ending_of

DEFAULT_SPEAKER = "speaker"
# Folders to search for recordings, relative to the transcript's.
RECORDING_FOLDERS = ("", "wavs", "wav", "clips", "audio")
MIN_CLIP_SECONDS = 0.5
# Coqui's max_wav_length: 255,995 samples.
MAX_CLIP_SECONDS = 11.6
# Of 255: an ending such as `.flac` may follow.
_MAX_NAME_BYTES = 250
# Files that accompany a recording.
_TEXT_ENDINGS = frozenset(
    {"", ".txt", ".lab", ".csv", ".tsv", ".json", ".jsonl", ".srt", ".vtt", ".textgrid", ".list"}
)
# The files that may be transcripts.
ENDINGS = (".csv", ".tsv", ".list", ".txt", ".jsonl", ".json")
# Files that `train cut`, `train check` and `train extend` write into a folder of clips.
_OUR_FILES = frozenset({"account.csv", "clips.jsonl", "cut.json", "inspection.csv", "normalization.txt"})
_VALIDATION_WORDS = ("val", "valid", "validation", "eval", "dev")
TRAIN_WORD = re.compile(r"(?<![a-z])train(?:ing)?(?![a-z])", re.I)


class DatasetError(SotaqueError):
    """A dataset that cannot be used; the message names the file, the line and the allowed form."""


@dataclass
class TranscriptEntry:
    """One row of a transcript. path: the expected recording; name: its name in reports.

    validation: True or False if the dataset specifies the split, else None.
    """

    name: str
    path: Path
    text: str
    speaker: str
    language: str
    validation: bool | None = None


# Text files


def read_text(path: Path) -> str:
    """The text of a file. Raises DatasetError for another encoding, and OSError."""
    try:
        # Concatenated files also have invisible byte-order marks in the middle.
        return decoded_text(path.read_bytes()).replace("\ufeff", "")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise DatasetError(
            f"{path}, line {line}: byte {error.object[error.start]:#x} is not "
            f"{error.encoding.upper()}. Save the file as UTF-8."
        ) from error


# Transcripts


def candidates(files: Sequence[Path]) -> list[Path]:
    """The files that could be transcripts of several recordings."""
    single_texts = set(texts_beside(files))
    return sorted(
        path
        for path in files
        if path.suffix.lower() in ENDINGS
        and path.name not in _OUR_FILES
        and not path.name.startswith(".")
        and path not in single_texts
        and path.is_file()
    )


def texts_beside(files: Sequence[Path]) -> Iterator[Path]:
    """The texts of single recordings: a.txt for a.wav."""
    texts = [path for path in files if path.suffix.lower() in (".txt", ".lab")]
    sounds = {path.with_suffix("") for path in files if names_sound(path.name)} if texts else set()
    for path in texts:
        stem = path.with_suffix("")
        if stem in sounds or stem.with_suffix("") in sounds:
            yield path


def validation_of(folder: Path, train: Path) -> Path | None:
    """The file with the validation clips for a file of training clips."""
    name = train.relative_to(folder).as_posix()
    for word in _VALIDATION_WORDS:
        if TRAIN_WORD.search(name):
            paths = [folder / TRAIN_WORD.sub(word, name)]
        else:
            paths = [train.with_name(f"{stem}{train.suffix}") for stem in (f"{train.stem}_{word}", word)]
        if path := next(filter(Path.is_file, paths), None):
            return path
    return None


def unread_note(folder: Path, unread: Iterable[Path], read: Iterable[Path] = ()) -> str:
    """A line that lists the unread files that look like transcripts; "" if there are none."""
    unread_names, read_names = (
        enumeration([path.relative_to(folder).as_posix() for path in paths]) for paths in (unread, read)
    )
    if not unread_names:
        return ""
    clips_of = f" The clips are those of {read_names}." if read_names else ""
    return f"Not read: {unread_names}.{clips_of}"


# Recordings


def files_below(folder: Path) -> list[Path]:
    """The files in a folder and in its subfolders, sorted, without hidden ones."""
    return sorted(
        path
        for path in folder.rglob("*")
        if not any(part.startswith(".") for part in path.relative_to(folder).parts) and path.is_file()
    )


def why_unsafe(name: str) -> str | None:
    """Why a name must not be opened, or None. Paths must stay inside the dataset."""
    parts = name.replace("\\", "/").split("/")
    if not name:
        return "the name of the clip is empty"
    if not parts[0] or name[1:2] == ":":
        return "paths are relative to the dataset, not absolute"
    if ".." in parts:
        return "paths stay inside the dataset, without `..`"
    if not all(map(_can_be_file_name, parts)):
        return "this cannot be a file name"
    return None


def _can_be_file_name(part: str) -> bool:
    try:
        return "\0" not in part and len(os.fsencode(part)) <= _MAX_NAME_BYTES
    except UnicodeEncodeError:  # a lone surrogate
        return False


def relative_name(name: str, folder: Path) -> str:
    """Makes an absolute path inside the dataset relative to it. Other names stay unchanged."""
    if not name.startswith(os.sep):  # nearly every row, and resolving is slow
        return name
    for root in (folder.absolute(), folder.resolve()):
        if Path(name).is_relative_to(root):
            return Path(name).relative_to(root).as_posix()
    return name


def short(text: str) -> str:
    """The beginning of a text, for messages."""
    return text if len(text) <= 60 else text[:60] + "…"


def shown_path(path: Path, folder: Path) -> str:
    """A file for people: relative to the dataset's folder if it is inside."""
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else str(path)


def names_sound(name: str) -> bool:
    """Whether a name has the ending of a recording."""
    return name.lower().endswith(SOUND_ENDINGS)


def find_recording(folders: Sequence[Path], name: str) -> Path:
    """The file of the recording `name`; the expected path if there is none.

    Also tries sound extensions, Windows separators, accents composed or decomposed (as in archives
    from a Mac), another case (a recorder's `A.WAV`), and converted files: `a.wav` or `a.m4a.wav`
    for `a.m4a`.
    """
    posix_name = name.replace("\\", "/")
    ending = PurePosixPath(posix_name).suffix.lower()
    stem = posix_name[: -len(ending)] if ending in FOREIGN else posix_name
    endings = ("",) if ending in DECODED else SOUND_ENDINGS
    expected: Path = folders[0] / f"{stem}{endings[0]}"
    paths = [folder / posix_name for folder in folders]
    # Nearly every row: listing a folder is slower.
    for path in (expected, *(paths if ending in DECODED else ())):
        if path.is_file():
            return path
    spellings = {_compose(f"{stem}{ending}") for ending in endings}
    similar = list[list[Path]]()
    for folder, path in zip(folders, paths, strict=True):
        similar.append([file for file in files_named_like(path) if names_sound(file.name)])
        for file in similar[-1]:
            if _compose(file.relative_to(folder).as_posix()) in spellings:
                return file
    for files in similar:
        if len(files) == 1 or (files and files[0].suffix.lower() != files[1].suffix.lower()):
            return files[0]
    added_endings = DECODED if ending in FOREIGN else ()
    converted = [folder / f"{posix_name}{ending}" for folder in folders for ending in added_endings]
    return next(filter(Path.is_file, (*paths, *converted)), expected)


def locate(name: str, folders: Sequence[Path]) -> tuple[str, Path]:
    """The name of a recording and its file. Some tools write the paths of another machine: without such
    a file, the folders are searched for the last parts of the path. A name without an ending is most
    likely in wavs/, as in LJSpeech.
    """
    lower = name.lower()
    if not lower.endswith(SOUND_ENDINGS):
        folders = _recordings_first(tuple(folders))
    # Nearly every row: the search below takes ten times as long.
    if not lower.endswith(FOREIGN) and "\\" not in name and why_unsafe(name) is None:
        direct = folders[0] / (name if lower.endswith(DECODED) else f"{name}{DECODED[0]}")
        if direct.is_file():
            return name, direct
    parts = PureWindowsPath(name).parts
    last_parts = ("/".join(parts[first:]) for first in range(1, len(parts)) if ".." not in parts)
    for ending in (name, *last_parts):
        if why_unsafe(ending) is None and (path := find_recording(folders, ending)).is_file():
            return ending, path
    return name, folders[0] if why_unsafe(name) else find_recording(folders, name)


@lru_cache(maxsize=16)
def _recordings_first(folders: tuple[Path, ...]) -> tuple[Path, ...]:
    return tuple(sorted(folders, key=lambda folder: folder.name not in RECORDING_FOLDERS))


def names_recording(cell: str, folders: Sequence[Path]) -> bool:
    """Whether a field names a recording, by its ending or by an existing file."""
    return names_sound(cell) or locate(cell, folders)[1].is_file()


def recording_folders(transcript: Path, folder: Path) -> list[Path]:
    """The folders that may hold the recordings of a transcript in the dataset `folder`."""
    folders = (root / name for root in (transcript.parent, folder) for name in RECORDING_FOLDERS)
    return list(dict.fromkeys(path for path in folders if path.is_dir()))


def rowless_note(folder: Path, in_rows: Set[str]) -> str:
    """A note that names the recordings without a row, in the folders of those with one; "" without any.
    A copy in another format has the row of the original."""
    by_folder, rowless = defaultdict[str, set[str]](set), list[str]()
    for path in in_rows:
        parent, name = os.path.split(path)
        by_folder[parent].add(name)
    for parent, names in by_folder.items():
        try:
            on_disk = {file.name for file in os.scandir(parent) if file.is_file()}
        except OSError:  # the rows name a folder that does not exist
            continue
        if stems := {_without_ending(name) for name in names & on_disk}:
            rowless += [
                shown_path(Path(parent, name), folder)
                for name in on_disk
                if _without_ending(name) not in stems and not name.startswith(".") and ending_of(name)
            ]
    if not rowless:
        return ""
    are = (
        "1 recording has no row and is"
        if len(rowless) == 1
        else (f"{len(rowless)} recordings have no row and are")
    )
    return f"{are} not used: {enumeration(sorted(rowless))}."


def _without_ending(name: str) -> str:
    return name.rpartition(".")[0] or name


def files_named_like(path: Path) -> list[Path]:
    """Files with the name of a missing recording, except texts. The case of the name and of its
    folder and the ending may differ. Files with the same ending come first."""
    stem = _fold(path.stem if names_sound(path.name) else path.name)
    try:
        folder = _folder_without_case(path.parent)
        files = _names_of(folder, folder.stat().st_mtime_ns).get(stem, ()) if folder else ()
    except OSError:  # no permission to list the folder
        return []
    order = (*(ending for ending in DECODED if ending == path.suffix.lower()), *SOUND_ENDINGS)
    return sorted(files, key=lambda file: [file.suffix.lower() != ending for ending in order])


def _folder_without_case(path: Path) -> Path | None:
    if path.is_dir():
        return path
    parent = None if path == path.parent else _folder_without_case(path.parent)
    if parent is None:
        return None
    alike = [sibling for sibling in parent.iterdir() if _fold(sibling.name) == _fold(path.name)]
    folders = [sibling for sibling in alike if sibling.is_dir()]
    return folders[0] if len(folders) == 1 else None


@lru_cache(maxsize=16)
def _names_of(folder: Path, _changed_ns: int) -> dict[str, tuple[Path, ...]]:
    """A folder's files by their names without endings, in lower case."""
    files: dict[str, tuple[Path, ...]] = {}
    for path in sorted(folder.iterdir(), key=lambda file: file.name):
        if path.suffix.lower() not in _TEXT_ENDINGS and not path.name.startswith("."):
            stem = _fold(path.stem)
            files[stem] = (*files.get(stem, ()), path)
    return files


def _compose(name: str) -> str:
    return unicodedata.normalize("NFC", name)


def _fold(name: str) -> str:
    return _compose(name).casefold()
