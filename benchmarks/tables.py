"""Figures as text: tables for a terminal, and Markdown."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from machine.text import table


def markdown(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """The lines of a Markdown table."""
    every = (columns, ["---"] * len(columns), *rows)
    return [f"| {' | '.join(map(str, row))} |" for row in every]


def text(found: Mapping[str, Any] | Sequence[Any]) -> str:
    """Rows of single figures as a table, everything else as lines."""
    named = isinstance(found, Mapping)
    rows = dict(found) if named else {str(number): row for number, row in enumerate(found)}
    if rows and all(isinstance(row, Mapping) and not _holds_rows(row) for row in rows.values()):
        return _table(rows, named=named)
    lines = []
    for name, value in rows.items():
        nested = isinstance(value, Mapping) or _holds_rows(value)
        lines.append(f"\n{name}:\n{text(value)}" if nested and value else f"{name}: {_cell(value)}")
    return "\n".join(lines)


def _holds_rows(value: object) -> bool:
    inner = list(value.values()) if isinstance(value, Mapping) else value
    return isinstance(inner, list | tuple) and any(isinstance(one, Mapping) for one in inner)


def _table(rows: Mapping[str, Mapping[str, Any]], *, named: bool) -> str:
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    cells = [["", *columns]] if named else [columns]
    for name, row in rows.items():
        figures = [_cell(row.get(column, "-")) for column in columns]
        cells.append([name, *figures] if named else figures)
    return "\n".join(table(cells))


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"
    if isinstance(value, list | tuple):
        return ", ".join(map(_cell, value))
    return str(value)
