"""Text files as people save them -> lines; lines -> fields, by `|`, tab, semicolon or comma.

UTF-8 and UTF-16 by their byte-order mark, UTF-8 without one. A field may stand in quotation marks,
within which the delimiter means nothing and `""` is one mark.
"""

import codecs
import io
import re
from collections.abc import Iterator
from pathlib import Path

from train.dataset.entries import DatasetError

_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_DELIMITERS = "\t;,"


def read_text(path: Path) -> str:
    """The text of a file. Raises DatasetError when it is missing or in another encoding."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise DatasetError(f"{path} does not exist; write a row for each clip into it.") from None
    encoding = "utf-16" if content.startswith(_UTF16_MARKS) else "utf-8-sig"
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise DatasetError(
            f"{path}, line {line}: byte {error.object[error.start]:#x} is no "
            f"{encoding.removesuffix('-sig').upper()}. Save the file as UTF-8."
        ) from error


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """(number from 1, line) of a text file; a byte-order mark and empty lines are skipped."""
    # Not splitlines: it also breaks at characters that may stand inside a text, such as U+2028.
    for position, row in enumerate(io.StringIO(read_text(path), newline=None), start=1):
        if row.strip():
            yield position, row.rstrip("\n")


def delimiter_of(line: str) -> str:
    """What separates the fields of a file, by its first line: `|` wherever there is one, as texts
    hold commas and semicolons too; else what comes first; `|` for a line of one field."""
    if "|" in line:
        return "|"
    quoted = re.match(r'\s*"(?:[^"]|"")*"', line)
    behind = line[quoted.end() :] if quoted else line
    return next((character for character in behind if character in _DELIMITERS), "|")


def fields(line: str, delimiter: str) -> list[str]:
    """The fields of a line, stripped, without the quotation marks around a whole field.

    `"Stop," he said.` keeps its marks: they do not stand around the field. So does a field whose
    mark does not close in its line.
    """
    end = re.escape(delimiter)
    field = re.compile(rf'[^\S\t]*"((?:[^"]|"")*)"\s*(?={end}|$)|([^{end}]*)')
    found, place = [], 0
    while True:
        match = field.match(line, place)
        assert match is not None  # the second branch also matches nothing
        quoted = match[1] is not None
        found.append((match[1].replace('""', '"') if quoted else match[2]).strip())
        place = match.end() + 1
        if place > len(line):
            return found
