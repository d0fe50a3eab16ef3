"""Reads the rows of a transcript file: CSV with any delimiter, or JSON objects on lines.

The delimiter is the one that most lines have, so one odd line is reported as a fault of that line.
Within a quoted field, delimiters and line breaks are part of the text, and `""` is one quotation
mark. A header line names the columns: `Columns`. Without one, columns are judged by their fields:
languages, names or sentences.
"""

import io
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from train.dataset.entries import DatasetError, names_recording, names_sound, read_text, recording_folders
from xtts.text.languages import ENGLISH_NAMES, code_of, is_code

# The header names of each role, in order of preference; in lower case, without spaces and signs.
NAMES_IN_HEADERS: Mapping[str, Sequence[str]] = {
    "path": (
        "filename",
        "filepath",
        "audiofile",
        "audiofilepath",
        "audiofilename",
        "audiopath",
        "audioname",
        "audio",
        "wavfilename",
        "wavfile",
        "wavfilepath",
        "wavpath",
        "wavname",
        "wav",
        "soundfile",
        "sound",
        "path",
        "file",
        "recording",
        "clip",
        "clippath",
        "clipname",
        "utteranceid",
        "uttid",
        "clipid",
        "audioid",
        "fileid",
        "segmentid",
        "id",
    ),
    "text": (
        "normalizedtext",
        "normalisedtext",
        "normalizedtranscription",
        "normalizedtranscript",
        "textnormalized",
        "textnormalised",
        "normtext",
    ),
    "written": (
        "text",
        "transcription",
        "transcript",
        "sentence",
        "rawtext",
        "originaltext",
        "utterance",
        "transcribedtext",
    ),
    "speaker": (
        "speakername",
        "speaker",
        "speakerid",
        "clientid",
        "spk",
        "spkid",
        "spkname",
        "voice",
        "voicename",
        "voiceid",
        "narrator",
    ),
    "language": (
        "language",
        "lang",
        "locale",
        "languagecode",
        "languageid",
        "languagename",
        "langcode",
        "langid",
    ),
    "style": ("style", "speakingstyle", "stylename"),
    "split": ("split", "subset", "partition"),
}
_SIGNS = re.compile(r"[\W_]+")
# Names of splits, and whether their rows are held out for validation. Test rows (None) are not
# used, nor are files of them.
SPLITS: Mapping[str, bool | None] = {
    "train": False,
    "training": False,
    **dict.fromkeys(("val", "valid", "validation", "eval", "evaluation", "dev"), True),
    "test": None,
    "testing": None,
}
_DELIMITERS = "\t;,"
# Spreadsheets may write their delimiter into the first line.
_DELIMITER_LINE = re.compile(r"sep=(.)", re.I)
# A quotation mark that is not closed within this number of lines is part of the text.
_MAX_LINES_IN_FIELD = 50
_MAX_NAMES_LOOKED_UP = 20
# The share of the rows that a form of names must have.
_MIN_FORM_SHARE = 0.1
_MAJORITY = 0.5
# MeloTTS's codes: its KR is Korean; in ISO 639-1 it is Kanuri.
_LANGUAGE_ALIASES = {"kr": "ko", "jp": "ja", "sp": "es", "zh_mix_en": "zh"}
_BY_NAME = {name.lower(): code for code, name in ENGLISH_NAMES.items()}
_LOCALE = re.compile(r"([a-z]{2,3})([-_][a-z]{4})?([-_]([a-z]{2}|\d{3}))?")
MAX_LABEL_WORDS, MAX_LABEL_CHARACTERS = 3, 40
SENTENCE_ENDS = tuple(".!?…。！？")
NUMBER = re.compile(r"[-+]?\d+")


@dataclass(frozen=True)
class Table:
    """The rows of a transcript file, with its header.

    rows: the fields of each; lines: the first line of each, from 1; delimiter: "" for JSON, whose
    first row holds the keys; validation: whether the clips are for validation.
    """

    path: Path
    rows: Sequence[tuple[str, ...]]
    lines: Sequence[int]
    delimiter: str
    validation: bool = False


@dataclass(frozen=True)
class Columns:
    """The columns of a transcript.

    places: the column of each role; if "written" exists, "text" is its normalised form. width: the
    number of columns. by_rows: whether they were judged by rows, without a header. ignored: the
    kind of labels in each unused column that was judged.
    """

    places: Mapping[str, int]
    width: int
    by_rows: bool = False
    ignored: Mapping[int, str] = field(default_factory=dict)

    @property
    def optional(self) -> frozenset[int]:
        """Columns that a row may lack at its end."""
        roles = {"language", "speaker", *(("text",) if "written" in self.places else ())}
        return frozenset(self.places[role] for role in roles if role in self.places)

    def spelled(self) -> str:
        """Such as `file|speaker|text`."""
        words = {"path": "file"}
        if "written" in self.places:
            words |= {"written": "text", "text": "normalised text"}
        names = {place: words.get(role, role) for role, place in self.places.items()}
        return "|".join(names.get(place, "(not used)") for place in range(self.width))


def read_table(path: Path) -> Table:
    """The rows of a file, including its header. Raises DatasetError for a missing file, an
    unsupported encoding and invalid JSON."""
    if not path.exists():
        raise DatasetError(f"{path} does not exist. Create it with a row for each clip.")
    text = read_text(path)
    if path.suffix.lower() == ".jsonl":
        return of_objects(path, parsed_objects(path, text))
    # Not splitlines: it also splits at characters that a text may contain, such as U+2028.
    lines = [line.rstrip("\n") for line in io.StringIO(text, newline=None)]
    delimiter = ""
    if lines and (line := _DELIMITER_LINE.fullmatch(lines[0].strip())):
        delimiter, lines[0] = line[1], ""  # keeps the line numbers of the rows
    delimiter = delimiter or delimiter_of(lines)
    # Spreadsheets write empty rows as delimiters.
    rows = {number: cells for number, cells in _rows(lines, delimiter, path).items() if any(cells)}
    return Table(path, tuple(rows.values()), tuple(rows), delimiter)


def columns_of_header(header: Sequence[str]) -> Columns | None:
    """The columns by a header line; None if the line is not a header."""
    names = [_SIGNS.sub("", cell.lower()) for cell in header]
    places = {
        role: names.index(name)
        for role, headers in NAMES_IN_HEADERS.items()
        if (name := next((header_name for header_name in headers if header_name in names), None)) is not None
    }
    if "text" not in places and "written" in places:
        places["text"] = places.pop("written")
    return Columns(places, len(header)) if {"path", "text"} <= places.keys() else None


def delimiter_of(lines: Sequence[str]) -> str:
    """The delimiter of a table: `|` if at least half of the delimited lines have one, as texts
    contain commas and semicolons; else the one that comes first in most lines; `|` by default."""
    firsts = ["|" if "|" in line else _first_delimiter(line) for line in lines]
    counts = Counter(filter(None, firsts))
    if 2 * counts["|"] < counts.total():
        counts = Counter(filter(None, map(_first_delimiter, lines)))
    return next((delimiter for delimiter, _ in counts.most_common(1)), "|")


def _first_delimiter(line: str) -> str:
    quoted = re.match(r'\s*"(?:[^"]|"")*"', line)
    unquoted = line[quoted.end() :] if quoted else line
    return next((character for character in unquoted if character in _DELIMITERS), "")


def most_common_width(rows: Sequence[Sequence[str]]) -> int:
    """The most common number of fields; in a tie, the one that occurs first."""
    return Counter(map(len, rows)).most_common(1)[0][0]


def _rows(lines: Sequence[str], delimiter: str, path: Path) -> dict[int, tuple[str, ...]]:
    """The fields of each row by the number of its first line."""
    single_lines = {
        number: tuple(_fields(line, delimiter)[0])
        for number, line in enumerate(lines, start=1)
        if line.strip()
    }
    # Lines that end inside a quoted field do not show the number of fields.
    complete = [cells for number, cells in single_lines.items() if lines[number - 1].count('"') % 2 == 0]
    if len(complete) == len(single_lines):
        return single_lines
    rows, last_line = dict[int, tuple[str, ...]](), 0
    begins_row = _row_test(complete or list(single_lines.values()), delimiter, path)
    for number, cells in single_lines.items():
        if number <= last_line:
            continue
        first, last_line, rows[number] = number - 1, number, cells
        if lines[first].count('"') % 2:
            below = lines[first : last_line + _MAX_LINES_IN_FIELD]
            fields, more_lines = _fields("\n".join(below), delimiter)
            # While a field is open, the next lines belong to it, unless they look like rows.
            if more_lines and not any(map(begins_row, below[1 : 1 + more_lines])):
                rows[number] = tuple(" ".join(cell.split()) for cell in fields)
                last_line += more_lines
    return rows


def _fields(text: str, delimiter: str) -> tuple[list[str], int]:
    """The fields of the first row of a text, stripped, without the quotation marks around a whole
    field; and the number of further lines that the row takes.

    `"Stop," he said.` keeps its marks because they do not enclose the field. So does a field whose
    mark does not close.
    """
    if '"' not in text:  # nearly every line
        return [cell.strip() for cell in text.split(delimiter)], 0
    end = re.escape(delimiter)
    field = re.compile(rf'[^\S\t\n]*"((?:[^"]|"")*)"[^\S\n]*?(?={end}|$)|([^{end}\n]*)', re.MULTILINE)
    values, position = list[str](), 0
    while match := field.match(text, position):  # the second branch also matches nothing
        quoted = match[1] is not None
        values.append((match[1].replace('""', '"') if quoted else match[2]).strip())
        position = match.end() + 1
        if text[match.end() : match.end() + 1] in ("", "\n"):
            break
    return values, text.count("\n", 0, position - 1)


def _row_test(rows: Sequence[Sequence[str]], delimiter: str, path: Path) -> Callable[[str], bool]:
    """A function that tells rows from the second and later lines of a quoted text. rows: lines
    without an open quotation mark.

    A row has the usual number of fields. In tables with commas, semicolons and tabs, which texts
    contain, too, it also names a recording: by its ending, or in the column of the recordings by an
    existing file or the form of the other names (`s10` like `s01`).
    """
    width = most_common_width(rows)
    full_rows = [cells for cells in rows if len(cells) == width]
    folders = recording_folders(path, path.parent)
    columns = list(zip(*full_rows, strict=True))
    column_starts = [column[:_MAX_NAMES_LOOKED_UP] for column in columns]
    existing = [sum(names_recording(cell, folders) for cell in column) for column in column_starts]
    forms = [_usual_forms(column) for column in columns]
    alike = [sum(_form(cell) in forms[index] for cell in column) for index, column in enumerate(columns)]
    files_exist = max(existing) > _MAJORITY * len(column_starts[0])
    counts = existing if files_exist else alike
    name_column = counts.index(max(counts))
    name_forms = forms[name_column]

    def begins_row(line: str) -> bool:
        cells, _ = _fields(line, delimiter)
        if len(cells) > 1 and names_sound(cells[0]):
            return True
        if width < 2 or len(cells) < width:
            return False
        if delimiter == "|":
            return True
        # Texts with delimiters add fields, most of them after the name.
        name = cells[name_column if name_column == 0 else name_column - width]
        # "1999, it rained" is not a row `1999` beside recordings 0001 to 0024.
        is_alike = _form(name) in name_forms and not (files_exist and name.isdecimal())
        return is_alike or (files_exist and names_recording(name, folders))

    return begins_row


def _usual_forms(names: Sequence[str]) -> frozenset[str]:
    """The forms with figures and without spaces that at least a tenth of the names have."""
    counts = Counter(map(_form, names))
    min_count = _MIN_FORM_SHARE * len(names)
    return frozenset(
        form for form, count in counts.items() if count > min_count and "0" in form and " " not in form
    )


def _form(name: str) -> str:
    """A name with its letters as `a` and its figures as `0`: `anna_012` is `a_000`."""
    return re.sub(r"[^\W\d_]+", "a", re.sub(r"\d", "0", name))


# JSON


def parsed_objects(path: Path, text: str) -> dict[int, object]:
    """The objects of a file by their numbers, from 1: one on each line, or a list."""
    if text.lstrip().startswith("["):
        return dict(enumerate(_parse(path, 1, text), start=1))
    lines = enumerate(io.StringIO(text, newline=None), start=1)
    return {number: _parse(path, number, line) for number, line in lines if line.strip()}


def of_objects(path: Path, objects: Mapping[int, object]) -> Table:
    """A row of keys, then a row for each object. Raises DatasetError for other values."""
    rows_read = list[Mapping[str, object]]()
    for number, row in objects.items():
        if not isinstance(row, Mapping):
            raise DatasetError(
                f"{path}: entry {number} is not a JSON object. Write one for each clip, such as "
                '{"file_name": "a.wav", "text": "Hello."}.'
            )
        rows_read.append(row)
    if not objects:
        return Table(path, (), (), "")
    keys = tuple(dict.fromkeys(key for row in rows_read for key in row))
    rows = (tuple(_as_text(row.get(key)) for key in keys) for row in rows_read)
    return Table(path, (keys, *rows), (0, *objects), "")


def _parse(path: Path, number: int, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise DatasetError(
            f"{path}, line {number}: this is not JSON ({error}). Write a JSON object on each line."
        ) from error


def _as_text(value: object) -> str:
    # Hugging Face writes {"audio": {"path": "a.wav", …}}.
    value = value.get("path") if isinstance(value, Mapping) else value
    return "" if value is None else " ".join(str(value).split())


# What a field holds


def language_of(cell: str) -> str:
    """The ISO 639-1 code of the language that a field names by a code, a locale or in English;
    "" if it names none."""
    name = cell.strip().lower()
    named_code = _LANGUAGE_ALIASES.get(name) or _BY_NAME.get(name)
    if named_code or not (locale := _LOCALE.fullmatch(name)):
        return named_code or ""
    code = code_of(locale[1])
    # Three-letter codes count only for XTTS-v2's languages: `ben` is Bengali, but also a name.
    is_language = is_code(locale[1]) if len(locale[1]) == 2 else code in ENGLISH_NAMES
    return code if is_language else ""


def is_label(cell: str) -> bool:
    """Whether a field is short enough for the name of a speaker or a style."""
    is_short = len(cell) <= MAX_LABEL_CHARACTERS and len(cell.split()) <= MAX_LABEL_WORDS
    is_name = any(map(str.isalpha, cell)) or NUMBER.fullmatch(cell) is not None
    return is_short and is_name and not cell.endswith(SENTENCE_ENDS)


def is_sentence(cell: str) -> bool:
    """Whether a field is a sentence: longer than a name, or at least two words with a full stop or
    another mark at the end."""
    words = len(cell.split())
    return (
        words > 2 * MAX_LABEL_WORDS
        or len(cell) > 2 * MAX_LABEL_CHARACTERS
        or (words > 1 and cell.endswith(SENTENCE_ENDS))
    )
