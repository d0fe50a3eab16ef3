"""Reads a transcript file into rows of fields: CSV with any delimiter, JSON lines, Kaldi's text.

A file is judged as a whole: the delimiter is the one that most lines have, and a field in quotation
marks may hold line breaks. One odd line is a fault of that line.
"""

import io
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from train.dataset.entries import SOUND_EXTENSIONS, DatasetError, fields, read_text

_DELIMITERS = "\t;,"
# Spreadsheets write their delimiter into a first line.
_DELIMITER_LINE = re.compile(r"sep=(.)", re.I)
JSON_ENDINGS = (".jsonl", ".json")
# LibriSpeech writes `84-121123-0000 GO ON`: a name, a space, the words.
NAME_AND_WORDS = " "
# A quotation mark that is not closed within this number of lines is part of the text.
_MOST_LINES_IN_FIELD = 50


@dataclass(frozen=True)
class Row:
    """number: the line on which it begins, from 1."""

    number: int
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """The rows of a transcript file. delimiter: "" for JSON; its first row has the keys."""

    path: Path
    rows: tuple[Row, ...]
    delimiter: str


def read_table(path: Path, delimiter: str | None = None) -> Table:
    """The rows of a file, the header included. Raises DatasetError for a missing file, another
    encoding, and JSON that cannot be read."""
    if not path.exists():
        raise DatasetError(f"{path} does not exist. Create it with a row for each clip.")
    text = read_text(path)
    if path.suffix.lower() in JSON_ENDINGS:
        return Table(path, tuple(_json_rows(path, text)), "")
    # Not splitlines: it also breaks at characters that may be part of a text, such as U+2028.
    lines = [line.rstrip("\n") for line in io.StringIO(text, newline=None)]
    if lines and (said := _DELIMITER_LINE.fullmatch(lines[0].strip())):
        delimiter, lines[0] = said[1], ""  # the line number of each row stays
    delimiter = delimiter or delimiter_of(lines)
    if delimiter == NAME_AND_WORDS:
        rows = [
            Row(number, tuple([*line.split(None, 1), ""][:2]))
            for number, line in enumerate(lines, start=1)
            if line.strip()
        ]
    else:
        rows = _rows(lines, delimiter)
    return Table(path, tuple(rows), delimiter)


def delimiter_of(lines: Sequence[str]) -> str:
    """The delimiter that most lines with one have: `|` before others, as texts hold commas and
    semicolons; else the one that comes first in most lines; `|` without any."""
    firsts = ["|" if "|" in line else _first_delimiter(line) for line in lines]
    counts = Counter(filter(None, firsts))
    if 2 * counts["|"] < counts.total():
        counts = Counter(filter(None, map(_first_delimiter, lines)))
    return max(counts, key=lambda one: counts[one]) if counts else "|"


def _first_delimiter(line: str) -> str:
    quoted = re.match(r'\s*"(?:[^"]|"")*"', line)
    rest = line[quoted.end() :] if quoted else line
    return next((character for character in rest if character in _DELIMITERS), "")


def most_common_width(rows: Sequence[Row]) -> int:
    """The number of fields that most rows have; of two numbers the one that comes first."""
    widths = Counter(len(row.cells) for row in rows)
    return max(widths, key=lambda width: widths[width])


def _rows(lines: Sequence[str], delimiter: str) -> list[Row]:
    alone = [
        Row(number, tuple(fields(line, delimiter)))
        for number, line in enumerate(lines, start=1)
        if line.strip()
    ]
    if not any(_open_field(lines[row.number - 1], delimiter) is not None for row in alone):
        return alone
    # Lines that end inside a field say nothing about the number of fields.
    whole = [row for row in alone if lines[row.number - 1].count('"') % 2 == 0]
    width, rows, ended = most_common_width(whole or alone), list[Row](), 0
    for row in alone:
        if row.number <= ended:
            continue
        joined, ended = _with_line_breaks(lines, row.number, delimiter, width)
        cells = row.cells
        if ended > row.number:
            cells = tuple(" ".join(cell.split()) for cell in fields(joined, delimiter))
        rows.append(Row(row.number, cells))
    return rows


def _with_line_breaks(
    lines: Sequence[str], number: int, delimiter: str, width: int
) -> tuple[str, int]:
    """The row that begins on line `number`, and the line on which it ends: further lines belong to
    it while a field in quotation marks is open, unless they look like rows themselves."""
    row, end = lines[number - 1], number
    while (place := _open_field(row, delimiter)) is not None:
        longer, last = row, end
        for line in lines[end : end + _MOST_LINES_IN_FIELD]:
            if _looks_like_row(line, delimiter, width):
                return row, end
            longer, last = f"{longer}\n{line}", last + 1
            if _quoted(delimiter).match(longer, place):
                break
        else:
            return row, end
        row, end = longer, last
    return row, end


def _looks_like_row(line: str, delimiter: str, width: int) -> bool:
    cells = fields(line, delimiter)
    sound = len(cells) > 1 and cells[0].lower().endswith(SOUND_EXTENSIONS)
    # Commas, semicolons and tabs are part of many texts; `|` is of none.
    return sound or (delimiter == "|" and width > 1 and len(cells) >= width)


def _open_field(line: str, delimiter: str) -> int | None:
    """Where a field begins whose quotation mark does not close in this line, if one does."""
    if line.count('"') % 2 == 0:
        return None
    field, place = _quoted(delimiter), 0
    while place <= len(line):
        if match := field.match(line, place):
            place = match.end() + 1
            continue
        if line[place:].lstrip().startswith('"') and line.count('"', place) % 2:
            return place
        end = line.find(delimiter, place)
        if end < 0:
            return None
        place = end + 1
    return None


def _quoted(delimiter: str) -> re.Pattern[str]:
    return re.compile(rf'[^\S\t]*"(?:[^"]|"")*"[^\S\n]*(?={re.escape(delimiter)}|$)')


# JSON


def _json_rows(path: Path, text: str) -> list[Row]:
    """A row of keys, then a row for each object: one a line, or a list of them."""
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
    """The clips of one object that holds them all: {"data": [{…}, …]}, or by their names,
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
    sound = all(name.lower().endswith(SOUND_EXTENSIONS) for name in names)
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
