"""Reads tables whose columns are named, by comma, semicolon, tab or `|`.

    file_name,text[,speaker][,language]     metadata.csv of Hugging Face's audio folders, and others
    sentence<tab>path                       in any order; other columns are left alone, and told

A table of two columns may go without the header: recording, then text.
"""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from train.dataset.entries import (
    DEFAULT_SPEAKER,
    EXTENSIONS,
    DatasetError,
    TranscriptEntry,
    find_recording,
    relative_name,
    unsafe,
)
from train.dataset.transcript_lines import delimiter_of, fields, lines
from xtts.foreign_sound import FOREIGN_EXTENSIONS

log = logging.getLogger("train")

# Of each, the first that the header names.
_NAMES: Mapping[str, Sequence[str]] = {
    "path": ("file_name", "filename", "audio_file", "audio_path", "audio", "wav_path", "wav",
             "path", "file", "clip", "id"),
    "text": ("normalized_text", "text", "transcription", "transcript", "sentence"),
    "speaker": ("speaker_name", "speaker", "speaker_id", "client_id"),
    "language": ("language", "lang", "locale"),
}  # fmt: skip
_FOLDERS = ("", "wavs", "clips", "audio")
_MOST_FAULTS_SHOWN = 10
# Of a recording's name; a first line such as `a.wav,Hello.` is no header.
_SOUND = (*EXTENSIONS, *FOREIGN_EXTENSIONS)


def columns_of(header: Sequence[str]) -> dict[str, int] | None:
    """Where each field stands, by a header line; None when the line is no header."""
    names = [cell.lower().replace(" ", "_") for cell in header]
    found = {
        field: names.index(name)
        for field, known in _NAMES.items()
        if (name := next((one for one in known if one in names), None)) is not None
    }
    return found if {"path", "text"} <= found.keys() else None


def read_columns(path: Path, language: str) -> list[TranscriptEntry]:
    """Every row of a table, in its order.

    Raises DatasetError for a header without the two columns that are needed, rows with more or
    fewer fields than the header, and names that leave the folder.
    """
    rows = list(lines(path))
    if not rows:
        return []
    delimiter = delimiter_of(rows[0][1])
    header = fields(rows[0][1], delimiter)
    places = columns_of(header)
    if places is None:
        places = _without_header(path, header)
        width = 2
    else:
        width = len(header)
        _tell_unused(path, header, places)
        rows = rows[1:]
    faults: list[str] = []
    entries: list[TranscriptEntry] = []
    for number, line in rows:
        cells = fields(line, delimiter)
        if len(cells) != width:
            faults.append(f"line {number} has {len(cells)} fields instead of {width}")
            continue
        name = relative_name(cells[places["path"]], path.parent)
        if fault := unsafe(name):
            faults.append(f"line {number} names {name[:60]!r}: {fault}")
            continue
        entries.append(_entry(path.parent, name, cells, places, language))
    if faults:
        more = len(faults) - _MOST_FAULTS_SHOWN
        raise DatasetError(
            f"{path}: {'; '.join(faults[:_MOST_FAULTS_SHOWN])}"
            f"{f'; and {more} more' if more > 0 else ''}. A text that holds {_called(delimiter)} "
            'stands in quotation marks: "Yes, of course."'
        )
    return entries


def _entry(
    folder: Path, name: str, cells: Sequence[str], places: Mapping[str, int], language: str
) -> TranscriptEntry:
    def cell(field: str, otherwise: str) -> str:
        return (cells[places[field]] if field in places else "") or otherwise

    recording = find_recording([folder / one for one in _FOLDERS], name)
    return TranscriptEntry(
        name, recording, cell("text", ""), cell("speaker", DEFAULT_SPEAKER),
        cell("language", language),
    )  # fmt: skip


def _without_header(path: Path, first: Sequence[str]) -> dict[str, int]:
    """Two columns, of which the first names recordings, need no header."""
    if len(first) == 2 and first[0].lower().endswith(_SOUND):
        return {"path": 0, "text": 1}
    raise DatasetError(
        f"{path} begins with {' '.join(first)[:60]!r}, which does not say what its {len(first)} "
        "columns are. Write a header line that names them, such as file_name,text or "
        "file_name,text,speaker,language."
    )


def _tell_unused(path: Path, header: Sequence[str], places: Mapping[str, int]) -> None:
    others = [name for place, name in enumerate(header) if place not in places.values()]
    if others:
        log.info("%s: the columns %s are not used.", path, ", ".join(others))


def _called(delimiter: str) -> str:
    return {",": "a comma", ";": "a semicolon", "\t": "a tab"}.get(delimiter, f"a {delimiter!r}")
