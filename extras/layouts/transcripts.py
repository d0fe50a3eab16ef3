"""Finds the transcript files in a dataset folder whatever they are called.

`metadata_train.csv` takes precedence over `metadata.csv`, and both over other names, such as
MeloTTS's `train.list`, VITS's filelists and NeMo's manifests. Validation clips come from the file
whose name has `val`, `valid`, `validation`, `eval` or `dev` instead of `train` or `training`; for
`metadata.csv`, from `metadata_val.csv` or `val.csv`. If several files with other names could be
transcripts, the error lists them all.

A file is CSV with any delimiter, JSON, or Kaldi's text.
"""

import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from machine.text import enumeration
from train.dataset.entries import (
    ENDINGS,
    TRAIN_WORD,
    DatasetError,
    candidates,
    files_below,
    names_recording,
    names_sound,
    read_text,
    recording_folders,
    texts_beside,
    validation_of,
)
from train.dataset.tables import (
    Table,
    columns_of_header,
    most_common_width,
    of_objects,
    parsed_objects,
    read_table,
)

_LIBRISPEECH_ENDING = ".trans.txt"
_HELD_OUT_WORD = re.compile(r"(?<![a-z])(val|valid|validation|eval|dev|test)(?![a-z])", re.I)
_MAX_ROWS_READ = 200
# A transcript names recordings in more than this share of its rows.
_MIN_NAMED_SHARE = 0.5


@dataclass(frozen=True)
class Transcripts:
    """The transcript files of a dataset.

    Attributes:
        train: The files of training clips.
        validation: The files of validation clips.
        unread: Files that look like transcripts and are not read.
    """

    train: tuple[Path, ...]
    validation: tuple[Path, ...] = ()
    unread: tuple[Path, ...] = ()


def find_transcripts(folder: Path, names: Sequence[str] = ()) -> Transcripts:
    """The transcripts in a folder or, if it has none, below it. Without any, `train` is empty.

    names: If given, the first of these files that exists is read, regardless of other files.

    Raises DatasetError, with all names, if several files could be the transcript.
    """
    here = candidates(list(folder.iterdir()))
    if names:
        first = next((name for name in names if (folder / name).is_file()), names[0])
        return _with_validation(folder, folder / first, here)
    for stem in ("metadata_train", "metadata"):
        for path in sorted(here, key=lambda path: ENDINGS.index(path.suffix.lower())):
            if path.stem.lower() == stem and (path.suffix.lower() in (".csv", ".tsv") or is_transcript(path)):
                return _with_validation(folder, path, here)
    if transcripts := [path for path in here if is_transcript(path)]:
        return _choose(folder, transcripts, here)
    files = files_below(folder)
    if not any(texts_beside(files)):
        below = [path for path in candidates(files) if path.parent != folder]
        if transcripts := [path for path in below if is_transcript(path)]:
            return _choose(folder, transcripts, [*here, *transcripts])
    return Transcripts((), unread=_likely_transcripts(here))


def _choose(folder: Path, transcripts: Sequence[Path], files: Sequence[Path]) -> Transcripts:
    """Chooses the transcript with the training clips by its name. files: all that may be transcripts."""
    if all(path.name.lower().endswith(_LIBRISPEECH_ENDING) for path in transcripts):
        return Transcripts(tuple(transcripts), unread=_likely_transcripts(set(files) - set(transcripts)))
    names = {path: path.relative_to(folder).as_posix() for path in transcripts}
    train = [path for path in transcripts if TRAIN_WORD.search(names[path])]
    others = [path for path in transcripts if not _HELD_OUT_WORD.search(names[path])]
    for paths in (train, others, transcripts):
        if len(paths) == 1:
            return _with_validation(folder, paths[0], files)
    if len({path.parent for path in transcripts}) == len(transcripts):
        advice = "set DATASET_DIR to its folder"
    else:
        advice = f"rename it to metadata{transcripts[0].suffix}"
    raise DatasetError(
        f"{folder} holds {len(transcripts)} transcripts: {enumeration(list(names.values()))}. "
        f"To train on one of them, {advice}. To train on all, write one metadata.csv with a row "
        "file|speaker|text for each clip."
    )


def _with_validation(folder: Path, train: Path, files: Sequence[Path]) -> Transcripts:
    validation = validation_of(folder, train)
    read_files = {train, validation}
    return Transcripts(
        (train,),
        (validation,) if validation else (),
        _likely_transcripts(path for path in files if path not in read_files),
    )


def _likely_transcripts(paths: Iterable[Path]) -> tuple[Path, ...]:
    """The files that look like transcripts: tables, and texts that name recordings."""
    return tuple(
        sorted(path for path in paths if path.suffix.lower() not in (".txt", ".json") or is_transcript(path))
    )


def is_transcript(path: Path) -> bool:
    """Whether most rows of a file name a recording, by its ending or by an existing file. An
    unreadable file is judged by its own ending, so that its fault is reported."""
    try:
        table = table_of(path)
    except (DatasetError, OSError):
        return path.suffix.lower() in (".list", ".jsonl")
    if not table.rows:
        return False
    if columns_of_header(table.rows[0]):
        return True
    rows, width = table.rows[:_MAX_ROWS_READ], most_common_width(table.rows)
    if width < 2:
        return False
    folders = recording_folders(path, path.parent)
    return any(
        sum(names_recording(row[place], folders) for row in rows if place < len(row))
        > _MIN_NAMED_SHARE * len(rows)
        for place in range(width)
    )


def table_of(path: Path) -> Table:
    """The rows of a transcript. A .txt file with few delimiters is read as in LibriSpeech: a name,
    a space, the words. Raises DatasetError."""
    if path.suffix.lower() == ".json" and path.exists():
        text = read_text(path)
        rows = None if text.lstrip().startswith("[") else dict(enumerate(_clips_of_object(text), start=1))
        return of_objects(path, rows or parsed_objects(path, text))
    if path.name.lower().endswith(_LIBRISPEECH_ENDING):
        return _read_names_and_words(path)
    table = read_table(path)
    if table.rows and most_common_width(table.rows) == 1 and path.suffix.lower() == ".txt":
        return _read_names_and_words(path)
    return table


def _read_names_and_words(path: Path) -> Table:
    """LibriSpeech's lines: `84-121123-0000 GO ON`."""
    lines = enumerate(io.StringIO(read_text(path), newline=None), start=1)
    rows = {number: line.split(None, 1) for number, line in lines if line.strip()}
    cells = (tuple([*(cell.rstrip("\n") for cell in row), ""][:2]) for row in rows.values())
    return Table(path, tuple(cells), tuple(rows), " ")


def _clips_of_object(text: str) -> Sequence[object]:
    """The clips of a single object: {"data": [{…}, …]}, or by name,
    {"a.wav": "Hello.", "b.wav": {"text": …}}. Empty if it is neither."""
    try:
        content = json.loads(text)
    except ValueError:
        return []  # an object on each line
    if not isinstance(content, Mapping):
        return []
    lists = [value for value in content.values() if isinstance(value, list)]
    if len(lists) == 1 and all(isinstance(value, Mapping) for value in lists[0]):
        return list(lists[0])
    names = list(content)
    rows = [
        {"file_name": name, **(value if isinstance(value, Mapping) else {"text": value})}
        for name, value in content.items()
        if isinstance(value, str | Mapping)
    ]
    has_texts = len(rows) == len(names) and all("text" in row for row in rows)
    is_by_name = all(map(names_sound, names)) or all(isinstance(value, Mapping) for value in content.values())
    return rows if has_texts and is_by_name else []
