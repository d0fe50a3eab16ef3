"""Text for a terminal: sizes, tables, wrapped lines, and output without control characters.

Also normalises names for comparison."""

import re
import textwrap
import unicodedata
from collections.abc import Sequence

WIDTH = 100
_MAX_LINE_CHARACTERS = 300
# Escape sequences of a terminal (ECMA-48), and control characters other than tab and newline.
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\^_]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def plain_name(name: str) -> str:
    """A name for comparison: without case, with single spaces and composed letters.

    macOS writes é as e and an accent, other systems as one character (Unicode, UAX 15; 3.13,
    default caseless matching).
    """
    composed = unicodedata.normalize("NFC", name).casefold()
    return " ".join(unicodedata.normalize("NFC", composed).split())


def size_words(num_bytes: float) -> str:
    """A size in words: 0.3 MB, 120 MB, 1.9 GB."""
    if num_bytes >= 1e9:
        return f"{num_bytes / 1e9:.1f} GB"
    return f"{num_bytes / 1e6:.{1 if num_bytes < 1e7 else 0}f} MB"


def quantity(number: int, noun: str) -> str:
    """A number with its noun: 1 clip, 2,000 clips."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def enumeration(names: Sequence[str], max_names: int = 12) -> str:
    """The first names, with the number of the others: a, b and 3 more."""
    shown, num_more = ", ".join(names[:max_names]), len(names) - max_names
    return f"{shown} and {num_more} more" if num_more > 0 else shown


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """One line per row, with columns two spaces apart."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def wrap(text: str, indent: str = "", first_indent: str | None = None) -> list[str]:
    """Wraps text to 100 characters; `first_indent` is that of the first line, if it differs."""
    return textwrap.wrap(
        " ".join(text.split()),
        WIDTH,
        initial_indent=indent if first_indent is None else first_indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def printable(text: str) -> str:
    """The text without escape sequences and control characters; newlines and tabs stay."""
    return _CONTROL.sub("", _ESCAPES.sub("", text.replace("\r\n", "\n")))


def first_line(error: BaseException) -> str:
    """At most 300 characters of an error's first line, without its full stop; without text, the
    name of its type."""
    line = next(iter(str(error).strip().splitlines()), type(error).__name__)
    return line[:_MAX_LINE_CHARACTERS].rstrip(". ")


def load_error(error: Exception) -> str:
    """Why torch cannot load a file, in one line, without torch's advice to load it unsafely."""
    if type(error).__name__ == "UnpicklingError":  # not imported: nothing here unpickles
        return "it is damaged, or holds more than tensors, which could run code"
    return first_line(error)


def last_line(text: str) -> str:
    """The last line that is not blank, at most 300 characters of it; "" if there is none."""
    lines = (line.strip() for line in reversed(text.splitlines()))
    return next((line for line in lines if line), "")[:_MAX_LINE_CHARACTERS]
