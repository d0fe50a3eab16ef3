"""Turns the rows of transcript files with known columns into clips.

Reads speakers, styles, languages and splits. A malformed row refuses the whole file, with its line
and content: a misread row would silently teach wrong words. `train.dataset.metadata` chooses the
files and finds their columns.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from machine.text import quantity
from train.dataset.entries import (
    DEFAULT_SPEAKER,
    RECORDING_FOLDERS,
    DatasetError,
    TranscriptEntry,
    locate,
    recording_folders,
    relative_name,
    rowless_note,
    short,
    unread_note,
    why_unsafe,
)
from train.dataset.tables import SPLITS, Columns, Table, is_label, is_sentence, language_of
from xtts.text.languages import tag_of
from xtts.text.markup import STYLE_MARK

_MAX_FAULTS_SHOWN = 10
_ROWS_SHOWN = 3
_NO_STYLE = frozenset({"", "neutral", "normal", "default", "none"})
_DELIMITER_NAMES = {",": "a comma", ";": "a semicolon", "\t": "a tab"}
# Placeholders that programs write for a missing name.
PLACEHOLDER_NAMES = frozenset(("", "nan", "none", "null", "n/a", "na", "<na>", "unknown"))


@dataclass
class Transcript:
    """The rows of a dataset, in the order of its files.

    source: the files and their columns, for the table of rows; notes: how they were read.
    """

    entries: list[TranscriptEntry]
    source: str
    notes: list[str] = field(default_factory=list)


def entries_of(
    folder: Path,
    tables: Sequence[Table],
    columns: Mapping[Path, Columns],
    unread: Sequence[Path],
    language: str,
) -> Transcript:
    """The rows of transcript files with known columns. unread: transcripts beside them."""
    files = [table.path for table in tables]
    names = [path.relative_to(folder).as_posix() for path in files]
    file_names = " and ".join(names) if len(names) < 3 else f"{len(names)} files, such as {names[0]}"
    transcript, recordings = Transcript([], f"{folder}: {file_names}"), set[str]()
    has_validation = any(table.validation for table in tables)
    filled_tables = [table for table in tables if table.rows]
    for table in filled_tables:
        table_rows = _read_table(folder, table, columns[table.path], language, recordings)
        for entry in table_rows.entries if has_validation else ():
            entry.validation = table.validation
        transcript.entries += table_rows.entries
        transcript.notes += [note for note in table_rows.notes if note not in transcript.notes]
    if has_validation:
        _remove_repeated(transcript, [path.name for path in files])
    corpus_speakers(transcript.entries)
    transcript.notes += folders_note(transcript.entries, "add a column with the name of each clip's speaker")
    transcript.notes += filter(None, (unread_note(folder, unread, files), rowless_note(folder, recordings)))
    transcript.source += f" ({columns[filled_tables[0].path].spelled()})" if filled_tables else ""
    return transcript


def folders_note(entries: Sequence[TranscriptEntry], remedy: str) -> list[str]:
    """A note if the recordings of a single speaker are in several folders."""
    if any(entry.speaker != DEFAULT_SPEAKER for entry in entries):
        return []
    folders = map(Path, {str(entry.path).rpartition(os.sep)[0] for entry in entries})
    people = {folder for folder in folders if folder.name.casefold() not in (*SPLITS, *RECORDING_FOLDERS)}
    if len(people) < 2:
        return []
    return [f"The {len(people)} folders are read as one speaker. If each folder is another person, {remedy}."]


def _remove_repeated(transcript: Transcript, names: Sequence[str]) -> None:
    """Removes training rows that repeat the recording and text of a validation row. A validation
    file that holds all training clips is not used. names: of the files, the validation set last."""
    held_out = {(entry.path, entry.text) for entry in transcript.entries if entry.validation}
    train = [entry for entry in transcript.entries if not entry.validation]
    train_only = [entry for entry in train if (entry.path, entry.text) not in held_out]
    validation = [entry for entry in transcript.entries if entry.validation]
    if validation and (train_only or not train):
        note = f"{names[-1]} is the validation set: {quantity(len(validation), 'clip')}."
        if repeated := len(train) - len(train_only):
            note += f" {quantity(repeated, 'clip')} of {names[0]}, in both files, left out of training."
        transcript.entries = [*train_only, *validation]
    else:
        recordings = {(entry.path, entry.text) for entry in train}
        transcript.entries = [
            *train,
            *(entry for entry in validation if (entry.path, entry.text) not in recordings),
        ]
        for entry in transcript.entries:
            entry.validation = None
        content = f"all clips of {names[0]}" if validation else "no clip"
        note = f"{names[-1]} holds {content}, so it is not used as the validation set."
    transcript.notes.append(note)


def corpus_speakers(entries: Sequence[TranscriptEntry]) -> None:
    """Adds the speakers of LibriSpeech and LibriTTS, whose file names repeat their folders:
    84/121123/84_121123_000007_000001.wav is by speaker 84. Other rows stay unchanged."""
    speakers = list[str]()
    for entry in entries:
        *_, speaker, chapter = ("", "", *entry.path.parent.parts)
        repeated = rf"{re.escape(speaker)}[-_]{re.escape(chapter)}[-_]"
        if entry.speaker != DEFAULT_SPEAKER or not re.match(repeated, entry.path.name):
            return
        speakers.append(speaker)
    for entry, speaker in zip(entries, speakers, strict=True):
        entry.speaker = speaker


def _read_table(
    folder: Path, table: Table, columns: Columns, language: str, recordings: set[str]
) -> Transcript:
    """The rows of one file with known columns. Adds the recordings of all rows to `recordings`."""
    path, transcript = table.path, Transcript([], "", _ignored_column_notes(table, columns))
    parent, num_headers = path.parent, 0 if columns.by_rows else 1
    rows = list(zip(table.lines, table.rows, strict=True))[num_headers:]
    folders = recording_folders(path, folder)
    prefix = "" if parent == folder else parent.relative_to(folder).as_posix()
    if "split" in columns.places:
        recordings |= {
            str(locate(relative_name(_cells_of(row, columns)["path"], parent), folders)[1]) for _, row in rows
        }
        rows = _used_rows(rows, columns.places["split"], path, transcript.notes)
    faults, styles, moved = list[str](), list[str](), list[str]()
    for number, row in rows:
        cells = _cells_of(row, columns)
        written_name = relative_name(cells["path"], parent)
        name, recording = locate(written_name, folders)
        speaker = cells.get("speaker", "")
        if fault := _row_fault(row, columns, table.delimiter, name, speaker):
            faults.append(f"line {number} {fault}")
            continue
        recordings.add(str(recording))
        transcript.entries.append(_entry(f"{prefix}/{name}" if prefix else name, recording, cells, language))
        styles.append(cells.get("style", ""))
        if name != written_name:
            moved.append(cells["path"])
    if faults:
        raise _error_of_rows(table, columns, faults)
    if all(entry.validation is not False for entry in transcript.entries):
        for entry in transcript.entries:
            entry.validation = None
    unnamed = sum(1 for entry in transcript.entries if entry.speaker == DEFAULT_SPEAKER)
    if "speaker" in columns.places and 0 < unnamed < len(transcript.entries):
        transcript.notes.append(f"{path.name}: {unnamed} rows name no speaker and count as one person.")
    if moved:
        transcript.notes.append(
            f"{path.name} names {len(moved)} recordings in other folders, such as "
            f"{short(moved[0])!r}; the files of the same names in {folder} are read."
        )
    add_styles(transcript, styles)
    return transcript


def _entry(name: str, recording: Path, cells: Mapping[str, str], language: str) -> TranscriptEntry:
    """A row by its fields. language: of the dataset, for a row without one."""
    speaker = cells.get("speaker", "")
    return TranscriptEntry(
        name,
        recording,
        cells.get("text") or cells.get("written", ""),
        DEFAULT_SPEAKER if speaker.casefold() in PLACEHOLDER_NAMES else speaker,
        _language(cells.get("language", ""), language),
        SPLITS.get(cells.get("split", "").casefold()),
    )


def _ignored_column_notes(table: Table, columns: Columns) -> list[str]:
    """A note for each column or group of columns that is not read."""
    name, rows, notes = table.path.name, table.rows, list[str]()
    if not columns.by_rows:
        header, rows = rows[0], rows[1:]
        used = columns.places.values()
        unused = [title for index, title in enumerate(header) if title and index not in used]
        if unused:
            notes.append(f"{name}: the columns {', '.join(unused)} are ignored.")
    for index, kind in columns.ignored.items():
        labels = sorted({row[index] for row in rows if index < len(row) and row[index]})
        advice = (
            " To keep each as a style, name the column `style` in a header line, such as "
            "file_name|text|style."
        )
        notes.append(
            f"{name}: column {index + 1} holds {kind} ({', '.join(labels[:_ROWS_SHOWN])}), not "
            f"speakers, and is ignored.{advice if kind == 'emotions' else ''}"
        )
    return notes


def _used_rows(
    rows: list[tuple[int, tuple[str, ...]]], split_column: int, path: Path, notes: list[str]
) -> list[tuple[int, tuple[str, ...]]]:
    """The numbered training and validation rows, by the column of splits."""
    splits = [row[split_column].casefold() if split_column < len(row) else "" for _, row in rows]
    if False not in map(SPLITS.get, splits):
        return rows  # a column of other words, or a file of one split
    used = [row for row, split in zip(rows, splits, strict=True) if SPLITS.get(split, False) is not None]
    held_out = sum(1 for split in splits if SPLITS.get(split))
    marked = [f"{quantity(held_out, 'clip')} for validation"] if held_out else []
    if tests := len(rows) - len(used):
        are = "is" if tests == 1 else "are"
        marked.append(f"{quantity(tests, 'clip')} for tests, which {are} not read")
    if marked:
        notes.append(f"{path.name}: its split column marks {' and '.join(marked)}.")
    return used


def _cells_of(row: Sequence[str], columns: Columns) -> dict[str, str]:
    """The fields of a row by their roles."""
    cells = {role: row[index] for role, index in columns.places.items() if index < len(row)}
    if len(row) > columns.width:
        cells["language"] = row[-1]
    return {"path": "", **cells}


def _row_fault(row: Sequence[str], columns: Columns, delimiter: str, name: str, speaker: str) -> str:
    """The fault of a row; "" if there is none. A row may omit the speaker, the language or the
    normalised text at its end, and may add its language."""
    count, width = len(row), columns.width
    if count != width:
        missing = set(range(count, width))
        has_language = (
            count == width + 1 and width > 2 and "language" not in columns.places and language_of(row[-1])
        )
        lacks_optional = count > 1 and missing and missing <= columns.optional
        if not (lacks_optional or has_language):
            line = (delimiter or "|").join(row)
            return f"has {count} fields instead of {width}: {short(line)!r}"
    if reason := why_unsafe(name):
        return f"names {short(name)!r}: {reason}"
    if columns.by_rows and speaker.casefold() not in PLACEHOLDER_NAMES and is_sentence(speaker):
        return f"has a sentence as its speaker: {short(speaker)!r}"
    return ""


def _error_of_rows(table: Table, columns: Columns, faults: Sequence[str]) -> DatasetError:
    """The error for a file with malformed rows: the first faults, and what a row should be."""
    first_faults, more = "; ".join(faults[:_MAX_FAULTS_SHOWN]), len(faults) - _MAX_FAULTS_SHOWN
    more_faults = f"; and {more} more" if more > 0 else ""
    delimiter = _DELIMITER_NAMES.get(table.delimiter, f"a {table.delimiter!r}")
    example = f'"Yes{table.delimiter or ","} of course."'
    return DatasetError(
        f"{table.path}: {first_faults}{more_faults}. A row is {columns.spelled()}. A text with "
        f"{delimiter} must be in quotation marks: {example}"
    )


def _language(cell: str, language: str) -> str:
    """The language of a row: the field if it is a code, else the code of the language it names."""
    if not cell:
        return language
    code = language_of(cell)
    if cell == cell.lower() and cell.partition("-")[0] == code:
        return cell
    return code or tag_of(cell) or language


def add_styles(transcript: Transcript, styles: Sequence[str]) -> None:
    """Appends the style of each row to its speaker: `anna:whisper`. An empty or `neutral` style
    changes nothing. A column of descriptions is ignored, with a note."""
    if not all(is_label(style) for style in styles if style):
        transcript.notes.append("The style column holds more than names of styles and is ignored.")
        return
    for entry, style in zip(transcript.entries, styles, strict=True):
        if style.strip().lower() not in _NO_STYLE:
            entry.speaker += f"{STYLE_MARK}{style.strip()}"
