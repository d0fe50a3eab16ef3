"""Reads `.env`: names and values with their line numbers.

Docker Compose and Sotaque read the same file. Every accepted line means the same to both; a line
that they would read differently is refused with its number. python-dotenv parses the file, but its
`dotenv_values` is not used: it only logs a line that it cannot read, and it replaces `${NAME}` even
inside single quotes, where Compose does not.
"""

import io
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from dotenv.parser import Binding, parse_stream

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
# An unreadable line is identified by its setting's name only: the rest may be secret.
_NAME = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_-]*)(?=[\s=:])")


class GivenSetting(NamedTuple):
    """A raw value and its source: ".env, line 3", "environment"."""

    text: str
    source: str


@dataclass(frozen=True)
class DotEnv:
    """The values by name (the last one if a name occurs twice), with errors and notes."""

    given: Mapping[str, GivenSetting]
    faults: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def read(path: Path, environ: Mapping[str, str], ours: Collection[str]) -> DotEnv:
    """Reads a `.env` file; a missing file is empty. Collects errors instead of raising them.

    Args:
        path: The file.
        environ: The environment, for `${NAME}`.
        ours: The names whose values must be readable; other values are not checked.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return DotEnv({})
    except OSError as error:
        return DotEnv({}, (f"{path} cannot be read ({error.strerror}); make it a readable file.",))
    except UnicodeDecodeError as error:
        number = error.object[: error.start].count(b"\n") + 1
        fault = f"{path} has a byte in line {number} that is not UTF-8; save it as UTF-8 text."
        return DotEnv({}, (fault,))
    if "\0" in text:
        return DotEnv({}, (f"{path} is UTF-16 or not text; save it as UTF-8 text.",))
    return _parse(path, text, environ, ours)


def _parse(path: Path, text: str, environ: Mapping[str, str], ours: Collection[str]) -> DotEnv:
    given: dict[str, GivenSetting] = {}
    numbers: dict[str, int] = {}
    faults: list[str] = []
    notes: list[str] = []
    for binding in parse_stream(io.StringIO(text)):
        name, number = binding.key, _line_number(binding)
        if binding.error:
            match = _NAME.match(binding.original.string)
            line = f"{number} ({match[1]} …)" if match and match[1] in ours else str(number)
            faults.append(f"{path}, line {line} is not NAME=value, or a quote is not closed; correct it.")
        if name is None:
            continue
        value, source = binding.value, f"{path}, line {number}"
        if value is None:
            if name in ours:
                faults.append(f"{source}: {name} has no '='; write NAME=value.")
            continue
        if not _is_single_quoted(binding):
            try:
                value = _expand(value, given, environ)
            except ValueError as error:
                if name in ours:
                    faults.append(f"{source}: {name} {error}")
                    continue
        if name in given and given[name].text != value:
            lines = f"lines {numbers[name]} and {number}"
            notes.append(f"{path} sets {name} in {lines}; the last one counts.")
        given[name], numbers[name] = GivenSetting(value, source), number
    return DotEnv(given, tuple(faults), tuple(notes))


def _expand(value: str, given: Mapping[str, GivenSetting], environ: Mapping[str, str]) -> str:
    """Replaces `${NAME}` and `${NAME:-default}` from the environment, then from the lines above (`given`).

    Raises ValueError for a name that is not set, and for any other `$` that Compose would replace.
    Compose would use an empty value for an unset name, which here would mean the default.
    """

    def replacement(match: re.Match[str]) -> str:
        name, default = match.groups()
        text = environ.get(name, given[name].text if name in given else None)
        if not text and default is not None:
            return default
        if text is None:
            raise ValueError(f"uses ${{{name}}}, which is not set; set it, or write the value.")
        return text

    # Checked before the replacement: a '$' inside a replaced value is not a reference.
    if "$" in _REFERENCE.sub("", value):
        raise ValueError(
            "holds a '$' that Docker Compose would replace; put the value in single quotes, "
            "or write ${NAME} or ${NAME:-default}."
        )
    return _REFERENCE.sub(replacement, value)


def _is_single_quoted(binding: Binding) -> bool:
    _, _, value = binding.original.string.partition("=")
    return value.lstrip().startswith("'")


def _line_number(binding: Binding) -> int:
    """The line number of a binding, which python-dotenv counts from the blank lines before it."""
    string = binding.original.string
    blank = string[: len(string) - len(string.lstrip())]
    return binding.original.line + blank.count("\n")
