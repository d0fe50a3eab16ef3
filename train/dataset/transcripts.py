"""Finds the transcript files of a dataset's folder: which are read, and which are left.

`metadata_train.csv` is read before `metadata.csv`, and both before other names, such as the
`train.list` of MeloTTS, the filelists of VITS and the manifests of NeMo. A file of the same name
with `val`, `valid`, `validation`, `eval` or `dev` instead of `train` or `training` holds the
validation clips; beside `metadata.csv` also `val.csv`. If several files with other names could be
read, all are named and none is chosen.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from train.dataset.columns import named
from train.dataset.entries import SOUND_EXTENSIONS, DatasetError
from train.dataset.tables import (
    JSON_ENDINGS,
    NAME_AND_WORDS,
    Table,
    most_common_width,
    read_table,
)

ENDINGS = (".csv", ".tsv", ".list", ".txt", *JSON_ENDINGS)
# What `train cut`, `train check` and `train extend` keep in a folder of clips.
_OURS = frozenset({"account.csv", "clips.jsonl", "cut.json", "inspection.csv", "normalization.txt"})
_LIBRISPEECH = ".trans.txt"
# Where recordings are looked for, from the transcript's folder.
RECORDING_FOLDERS = ("", "wavs", "wav", "clips", "audio")
_VALIDATION_WORDS = ("val", "valid", "validation", "eval", "dev")
_TRAIN_WORD = re.compile(r"(?<![a-z])train(?:ing)?(?![a-z])", re.I)
_HELD_OUT_WORD = re.compile(r"(?<![a-z])(val|valid|validation|eval|dev|test)(?![a-z])", re.I)
_MOST_ROWS_LOOKED_AT = 200
_MOST = 0.5
_MOST_NAMED = 12


@dataclass(frozen=True)
class Transcripts:
    """train: the files to read; validation: those whose clips are held out; unread: others."""

    train: tuple[Path, ...]
    validation: tuple[Path, ...] = ()
    unread: tuple[Path, ...] = ()


def find_transcripts(folder: Path, names: Sequence[str] = ()) -> Transcripts:
    """The transcripts in a folder or, if it has none, below it. Without any, `train` is empty.

    names: file names of which the first that exists is read, whatever else is there.

    Raises DatasetError, with all their names, if several files could be the transcript.
    """
    here = _candidates(list(folder.iterdir()))
    if names:
        first = next((name for name in names if (folder / name).is_file()), names[0])
        return _with_validation(folder, folder / first, here)
    for stem in ("metadata_train", "metadata"):
        for path in sorted(here, key=lambda one: ENDINGS.index(one.suffix.lower())):
            if path.stem.lower() == stem and (
                path.suffix.lower() in (".csv", ".tsv") or is_transcript(path)
            ):
                return _with_validation(folder, path, here)
    if found := [path for path in here if is_transcript(path)]:
        return _chosen(folder, found, here)
    files = [
        path for path in folder.rglob("*")
        if not any(part.startswith(".") for part in path.relative_to(folder).parts)
    ]  # fmt: skip
    if not any(_recordings_texts(files)):
        below = [path for path in _candidates(files) if path.parent != folder]
        if found := [path for path in below if is_transcript(path)]:
            return _chosen(folder, found, [*here, *found])
    return Transcripts((), unread=_worth_naming(here))


def _chosen(folder: Path, found: Sequence[Path], among: Sequence[Path]) -> Transcripts:
    """The one of several transcripts that holds the training clips, by its name."""
    if all(path.name.lower().endswith(_LIBRISPEECH) for path in found):
        return Transcripts(tuple(found), unread=_worth_naming(set(among) - set(found)))
    names = {path: path.relative_to(folder).as_posix() for path in found}
    train = [path for path in found if _TRAIN_WORD.search(names[path])]
    others = [path for path in found if not _HELD_OUT_WORD.search(names[path])]
    for some in (train, others, found):
        if len(some) == 1:
            return _with_validation(folder, some[0], among)
    if len({path.parent for path in found}) == len(found):
        one = "set DATASET_DIR to its folder"
    else:
        one = f"rename it to metadata{found[0].suffix}"
    raise DatasetError(
        f"{folder} holds {len(found)} transcripts: {_listed(list(names.values()))}. To train on "
        f"one of them, {one}. To train on all, write one metadata.csv with a row "
        "file|speaker|text for each clip."
    )


def _with_validation(folder: Path, train: Path, among: Sequence[Path]) -> Transcripts:
    validation = next((one for one in _held_out(folder, train) if one.is_file()), None)
    read = {train, validation}
    return Transcripts(
        (train,), (validation,) if validation else (),
        _worth_naming(path for path in among if path not in read),
    )  # fmt: skip


def _held_out(folder: Path, train: Path) -> Iterator[Path]:
    """Where the validation clips may be, by the name of the file of training clips."""
    name = train.relative_to(folder).as_posix()
    for word in _VALIDATION_WORDS:
        if _TRAIN_WORD.search(name):
            yield folder / _TRAIN_WORD.sub(word, name)
        else:
            yield train.with_name(f"{train.stem}_{word}{train.suffix}")
            yield train.with_name(f"{word}{train.suffix}")


def _worth_naming(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Files that could be taken for a transcript: tables, and texts that name recordings."""
    return tuple(
        sorted(
            path for path in paths
            if path.suffix.lower() not in (".txt", ".json") or is_transcript(path)
        )
    )  # fmt: skip


def is_transcript(path: Path) -> bool:
    """Whether most rows of a file name a recording, by its ending or by a file that exists. A file
    that cannot be read is one by its ending, so that its fault is not lost."""
    try:
        table = table_of(path)
    except (DatasetError, OSError):
        return path.suffix.lower() in (".list", ".jsonl")
    if not table.rows:
        return False
    if named(table.rows[0].cells):
        return True
    rows, width = table.rows[:_MOST_ROWS_LOOKED_AT], most_common_width(table.rows)
    if width < 2:
        return False
    beside = _names_beside(path.parent)
    return any(
        sum(_names_recording(row.cells[place], beside) for row in rows if place < len(row.cells))
        > _MOST * len(rows)
        for place in range(width)
    )


def table_of(path: Path) -> Table:
    """The rows of a transcript. A text without delimiters in most lines is read as LibriSpeech
    writes it: a name, a space, the words. Raises DatasetError."""
    spaced = path.name.lower().endswith(_LIBRISPEECH)
    table = read_table(path, NAME_AND_WORDS if spaced else None)
    if table.rows and most_common_width(table.rows) == 1 and path.suffix.lower() == ".txt":
        return read_table(path, NAME_AND_WORDS)
    return table


def unread_note(folder: Path, transcripts: Transcripts) -> str:
    """A line that names the files that look like transcripts and are not read; "" without one."""
    if not transcripts.unread:
        return ""
    names, read = (
        _listed([path.relative_to(folder).as_posix() for path in paths])
        for paths in (transcripts.unread, (*transcripts.train, *transcripts.validation))
    )
    return f"Not read: {names}." + (f" The clips are those of {read}." if read else "")


def _listed(names: Sequence[str]) -> str:
    shown, more = ", ".join(names[:_MOST_NAMED]), len(names) - _MOST_NAMED
    return f"{shown} and {more} more" if more > 0 else shown


def _candidates(files: Sequence[Path]) -> list[Path]:
    """The files that could be transcripts of several recordings."""
    beside = set(_recordings_texts(files))
    return sorted(
        path for path in files
        if path.suffix.lower() in ENDINGS and path.name not in _OURS
        and not path.name.startswith(".") and path not in beside and path.is_file()
    )  # fmt: skip


def _recordings_texts(files: Sequence[Path]) -> Iterator[Path]:
    """The files that belong to one recording each: a.txt beside a.wav."""
    sounds = {
        path.with_suffix("") for path in files if path.suffix.lower() in SOUND_EXTENSIONS
    }  # fmt: skip
    for path in files:
        if path.suffix.lower() in (".txt", ".lab"):
            plain = path.with_suffix("")
            if plain in sounds or plain.with_suffix("") in sounds:
                yield path


def _names_beside(folder: Path) -> frozenset[str]:
    """The names of the recordings beside a transcript, with and without their endings."""
    names = set[str]()
    for place in (folder / one for one in RECORDING_FOLDERS):
        if place.is_dir():
            for path in place.iterdir():
                if path.suffix.lower() in SOUND_EXTENSIONS:
                    names |= {path.name, path.stem}
    return frozenset(names)


def _names_recording(cell: str, beside: frozenset[str]) -> bool:
    sound = cell.lower().endswith(SOUND_EXTENSIONS)
    return sound or cell.replace("\\", "/").rpartition("/")[2] in beside
