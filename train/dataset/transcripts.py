"""Finds the transcript files in a dataset folder and splits their lines into rows of cells.

`metadata_train.csv` takes precedence over `metadata.csv`, and both over other names, such as
MeloTTS's `train.list`, VITS's filelists and NeMo's manifests. Validation clips come from the file
whose name has `val`, `valid`, `validation`, `eval` or `dev` instead of `train` or `training`; for
`metadata.csv`, from `metadata_val.csv` or `val.csv`. If several files with other names could be
transcripts, the error lists them all.

A file is CSV with any delimiter, JSON, or Kaldi's text. The delimiter is the one that most lines
have, so one odd line is reported as a fault of that line. Within a quoted field, delimiters and
line breaks are part of the text, and `""` is one quotation mark.
"""

import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from machine.text import listed
from train.dataset.columns import named
from train.dataset.entries import (
    DatasetError,
    files_below,
    names_recording,
    names_sound,
    read_text,
    recording_folders,
)

_DELIMITERS = "\t;,"
# Spreadsheets may write their delimiter into the first line.
_DELIMITER_LINE = re.compile(r"sep=(.)", re.I)
JSON_ENDINGS = (".jsonl", ".json")
# LibriSpeech writes `84-121123-0000 GO ON`: a name, a space, the words.
NAME_AND_WORDS = " "
# A quotation mark that is not closed within this number of lines is part of the text.
_MOST_LINES_IN_FIELD = 50
ENDINGS = (".csv", ".tsv", ".list", ".txt", *JSON_ENDINGS)
# Files that `train cut`, `train check` and `train extend` write into a folder of clips.
_OURS = frozenset({"account.csv", "clips.jsonl", "cut.json", "inspection.csv", "normalization.txt"})
_LIBRISPEECH = ".trans.txt"
_VALIDATION_WORDS = ("val", "valid", "validation", "eval", "dev")
_TRAIN_WORD = re.compile(r"(?<![a-z])train(?:ing)?(?![a-z])", re.I)
_HELD_OUT_WORD = re.compile(r"(?<![a-z])(val|valid|validation|eval|dev|test)(?![a-z])", re.I)
_MOST_ROWS_LOOKED_AT, _MOST_NAMES_LOOKED_UP = 200, 20
# The share of the rows that a form of names must have.
_LEAST_FORM = 0.1
_MOST = 0.5


@dataclass(frozen=True)
class Row:
    """A row of fields. number: its first line, from 1."""

    number: int
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """The rows of a transcript file. delimiter: "" for JSON, whose first row holds the keys."""

    path: Path
    rows: tuple[Row, ...]
    delimiter: str


@dataclass(frozen=True)
class Transcripts:
    """The transcript files of a dataset.

    train, validation: the files of training and of validation clips; unread: other candidates.
    """

    train: tuple[Path, ...]
    validation: tuple[Path, ...] = ()
    unread: tuple[Path, ...] = ()


def find_transcripts(folder: Path, names: Sequence[str] = ()) -> Transcripts:
    """The transcripts in a folder or, if it has none, below it. Without any, `train` is empty.

    names: If given, the first of these files that exists is read, regardless of other files.

    Raises DatasetError, with all names, if several files could be the transcript.
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
    files = files_below(folder)
    if not any(_recordings_texts(files)):
        below = [path for path in _candidates(files) if path.parent != folder]
        if found := [path for path in below if is_transcript(path)]:
            return _chosen(folder, found, [*here, *found])
    return Transcripts((), unread=_worth_naming(here))


def _chosen(folder: Path, found: Sequence[Path], among: Sequence[Path]) -> Transcripts:
    """Chooses the transcript with the training clips by its name."""
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
        f"{folder} holds {len(found)} transcripts: {listed(list(names.values()))}. "
        f"To train on one of them, {one}. To train on all, write one metadata.csv with a row "
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
    """The possible validation files for a file of training clips."""
    name = train.relative_to(folder).as_posix()
    for word in _VALIDATION_WORDS:
        if _TRAIN_WORD.search(name):
            yield folder / _TRAIN_WORD.sub(word, name)
        else:
            yield train.with_name(f"{train.stem}_{word}{train.suffix}")
            yield train.with_name(f"{word}{train.suffix}")


def _worth_naming(paths: Iterable[Path]) -> tuple[Path, ...]:
    """The files that look like transcripts: tables, and texts that name recordings."""
    return tuple(
        sorted(
            path for path in paths
            if path.suffix.lower() not in (".txt", ".json") or is_transcript(path)
        )
    )  # fmt: skip


def is_transcript(path: Path) -> bool:
    """Whether most rows of a file name a recording, by its ending or by an existing file. An
    unreadable file is judged by its own ending, so that its fault is reported."""
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
    folders = recording_folders(path, path.parent)
    return any(
        sum(names_recording(row.cells[place], folders) for row in rows if place < len(row.cells))
        > _MOST * len(rows)
        for place in range(width)
    )


def table_of(path: Path) -> Table:
    """The rows of a transcript. A .txt file with few delimiters is read as in LibriSpeech: a name,
    a space, the words. Raises DatasetError."""
    spaced = path.name.lower().endswith(_LIBRISPEECH)
    table = read_table(path, NAME_AND_WORDS if spaced else None)
    if table.rows and most_common_width(table.rows) == 1 and path.suffix.lower() == ".txt":
        return read_table(path, NAME_AND_WORDS)
    return table


def unread_note(folder: Path, transcripts: Transcripts) -> str:
    """A line that lists the unread files that look like transcripts; "" if there are none."""
    if not transcripts.unread:
        return ""
    names, read = (
        listed([path.relative_to(folder).as_posix() for path in paths])
        for paths in (transcripts.unread, (*transcripts.train, *transcripts.validation))
    )
    return f"Not read: {names}." + (f" The clips are those of {read}." if read else "")


def _candidates(files: Sequence[Path]) -> list[Path]:
    """The files that could be transcripts of several recordings."""
    beside = set(_recordings_texts(files))
    return sorted(
        path for path in files
        if path.suffix.lower() in ENDINGS and path.name not in _OURS
        and not path.name.startswith(".") and path not in beside and path.is_file()
    )  # fmt: skip


def _recordings_texts(files: Sequence[Path]) -> Iterator[Path]:
    """The texts of single recordings: a.txt for a.wav."""
    sounds = {path.with_suffix("") for path in files if names_sound(path.name)}
    for path in files:
        if path.suffix.lower() in (".txt", ".lab"):
            plain = path.with_suffix("")
            if plain in sounds or plain.with_suffix("") in sounds:
                yield path


# Rows


def read_table(path: Path, delimiter: str | None = None) -> Table:
    """The rows of a file, including its header. Raises DatasetError for a missing file, an
    unsupported encoding and invalid JSON."""
    if not path.exists():
        raise DatasetError(f"{path} does not exist. Create it with a row for each clip.")
    text = read_text(path)
    if path.suffix.lower() in JSON_ENDINGS:
        return Table(path, tuple(_json_rows(path, text)), "")
    # Not splitlines: it also splits at characters that a text may contain, such as U+2028.
    lines = [line.rstrip("\n") for line in io.StringIO(text, newline=None)]
    if lines and (said := _DELIMITER_LINE.fullmatch(lines[0].strip())):
        delimiter, lines[0] = said[1], ""  # keeps the line numbers of the rows
    delimiter = delimiter or delimiter_of(lines)
    if delimiter == NAME_AND_WORDS:
        rows = [
            Row(number, tuple([*line.split(None, 1), ""][:2]))
            for number, line in enumerate(lines, start=1)
            if line.strip()
        ]
    else:
        # Spreadsheets write empty rows as delimiters.
        rows = [row for row in _rows(lines, delimiter, path) if any(row.cells)]
    return Table(path, tuple(rows), delimiter)


def delimiter_of(lines: Sequence[str]) -> str:
    """The delimiter of a table: `|` if at least half of the delimited lines have one, as texts
    contain commas and semicolons; else the one that comes first in most lines; `|` by default."""
    firsts = ["|" if "|" in line else _first_delimiter(line) for line in lines]
    counts = Counter(filter(None, firsts))
    if 2 * counts["|"] < counts.total():
        counts = Counter(filter(None, map(_first_delimiter, lines)))
    return next((one for one, _ in counts.most_common(1)), "|")


def _first_delimiter(line: str) -> str:
    quoted = re.match(r'\s*"(?:[^"]|"")*"', line)
    rest = line[quoted.end() :] if quoted else line
    return next((character for character in rest if character in _DELIMITERS), "")


def most_common_width(rows: Sequence[Row]) -> int:
    """The most common number of fields; in a tie, the one that occurs first."""
    return Counter(len(row.cells) for row in rows).most_common(1)[0][0]


def _rows(lines: Sequence[str], delimiter: str, path: Path) -> list[Row]:
    alone = [
        Row(number, tuple(_fields(line, delimiter)[0]))
        for number, line in enumerate(lines, start=1)
        if line.strip()
    ]
    # Lines that end inside a quoted field do not show the number of fields.
    whole = [row for row in alone if lines[row.number - 1].count('"') % 2 == 0]
    if len(whole) == len(alone):
        return alone
    rows, ended = list[Row](), 0
    begins_row = _row_test(whole or alone, delimiter, path)
    for row in alone:
        if row.number <= ended:
            continue
        first, ended = row.number - 1, row.number
        if lines[first].count('"') % 2:
            below = lines[first : ended + _MOST_LINES_IN_FIELD]
            cells, taken = _fields("\n".join(below), delimiter)
            # While a field is open, the next lines belong to it, unless they look like rows.
            if taken and not any(map(begins_row, below[1 : 1 + taken])):
                row = Row(ended, tuple(" ".join(cell.split()) for cell in cells))
                ended += taken
        rows.append(row)
    return rows


def _fields(text: str, delimiter: str) -> tuple[list[str], int]:
    """The fields of the first row of a text, stripped, without the quotation marks around a whole
    field; and the number of further lines that the row takes.

    `"Stop," he said.` keeps its marks because they do not enclose the field. So does a field whose
    mark does not close.
    """
    end = re.escape(delimiter)
    field = re.compile(
        rf'[^\S\t\n]*"((?:[^"]|"")*)"[^\S\n]*?(?={end}|$)|([^{end}\n]*)', re.MULTILINE
    )
    values, place = list[str](), 0
    while match := field.match(text, place):  # the second branch also matches nothing
        quoted = match[1] is not None
        values.append((match[1].replace('""', '"') if quoted else match[2]).strip())
        place = match.end() + 1
        if text[match.end() : match.end() + 1] in ("", "\n"):
            break
    return values, text.count("\n", 0, place - 1)


def _row_test(rows: Sequence[Row], delimiter: str, path: Path) -> Callable[[str], bool]:
    """A function that tells rows from the second and later lines of a quoted text. rows: lines
    without an open quotation mark.

    A row has the usual number of fields. In tables with commas, semicolons and tabs, which texts
    contain, too, it also names a recording: by its ending, or in the column of the recordings by an
    existing file or the form of the other names (`s10` like `s01`).
    """
    width = most_common_width(rows)
    usual = [row.cells for row in rows if len(row.cells) == width]
    folders = recording_folders(path, path.parent)
    columns = list(zip(*usual, strict=True))
    some = [column[:_MOST_NAMES_LOOKED_UP] for column in columns]
    existing = [sum(names_recording(one, folders) for one in column) for column in some]
    forms = [_usual_forms(column) for column in columns]
    alike = [sum(_form(one) in forms[at] for one in column) for at, column in enumerate(columns)]
    exist = max(existing) > _MOST * len(some[0])
    seen = existing if exist else alike
    place = seen.index(max(seen))
    names = forms[place]

    def begins_row(line: str) -> bool:
        cells, _ = _fields(line, delimiter)
        if len(cells) > 1 and names_sound(cells[0]):
            return True
        if width < 2 or len(cells) < width:
            return False
        if delimiter == "|":
            return True
        # Texts with delimiters add fields, most of them after the name.
        name = cells[place if place == 0 else place - width]
        # "1999, it rained" is not a row `1999` beside recordings 0001 to 0024.
        alike = _form(name) in names and not (exist and name.isdecimal())
        return alike or (exist and names_recording(name, folders))

    return begins_row


def _usual_forms(names: Sequence[str]) -> frozenset[str]:
    """The forms with figures and without spaces that at least a tenth of the names have."""
    counts = Counter(map(_form, names))
    least = _LEAST_FORM * len(names)
    return frozenset(
        form for form, count in counts.items() if count > least and "0" in form and " " not in form
    )


def _form(name: str) -> str:
    """A name with its letters as `a` and its figures as `0`: `anna_012` is `a_000`."""
    return re.sub(r"[^\W\d_]+", "a", re.sub(r"\d", "0", name))


# JSON


def _json_rows(path: Path, text: str) -> list[Row]:
    """A row of keys, then a row for each object. Objects come one per line or in a list."""
    objects = dict[int, Mapping[str, Any]]()
    if text.lstrip().startswith("["):
        objects = dict(enumerate(_parsed(path, 1, text), start=1))
    elif path.suffix.lower() == ".json" and (whole := _whole(text)):
        objects = dict(enumerate(whole, start=1))
    else:
        for number, line in enumerate(io.StringIO(text, newline=None), start=1):
            if line.strip():
                objects[number] = _parsed(path, number, line)
    if not_rows := [one for one, row in objects.items() if not isinstance(row, Mapping)]:
        raise DatasetError(
            f"{path}: entry {not_rows[0]} is not a JSON object. Write one for each clip, such as "
            '{"file_name": "a.wav", "text": "Hello."}.'
        )
    keys = list(dict.fromkeys(key for row in objects.values() for key in row))
    rows = [
        Row(number, tuple(_as_text(row.get(key)) for key in keys))
        for number, row in objects.items()
    ]
    return [Row(0, tuple(keys)), *rows] if rows else []


def _whole(text: str) -> list[Any]:
    """The clips of a single object: {"data": [{…}, …]}, or by name,
    {"a.wav": "Hello.", "b.wav": {"text": …}}. Empty if it is neither."""
    try:
        everything = json.loads(text)
    except ValueError:
        return []  # an object on each line
    if not isinstance(everything, Mapping):
        return []
    lists = [one for one in everything.values() if isinstance(one, list)]
    if len(lists) == 1 and all(isinstance(one, Mapping) for one in lists[0]):
        return list(lists[0])
    names = list(everything)
    rows = [
        {"file_name": name, **(value if isinstance(value, Mapping) else {"text": value})}
        for name, value in everything.items()
        if isinstance(value, str | Mapping)
    ]
    sound = all(names_sound(name) for name in names)
    texts = all("text" in row for row in rows)
    by_name = sound or all(isinstance(one, Mapping) for one in everything.values())
    return rows if len(rows) == len(names) and by_name and texts else []


def _parsed(path: Path, number: int, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise DatasetError(
            f"{path}, line {number}: this is not JSON ({error}). Write a JSON object on each line."
        ) from error


def _as_text(value: Any) -> str:
    # Hugging Face writes {"audio": {"path": "a.wav", …}}.
    value = value.get("path") if isinstance(value, Mapping) else value
    return "" if value is None else " ".join(str(value).split())
