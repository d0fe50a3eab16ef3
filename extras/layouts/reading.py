"""Reads the datasets whose layout or columns the core does not know for certain.

rows         transcripts under many names and in many forms: `transcripts` finds the files,
             `columns` judges their columns
pairs        a.wav and a.txt, without a transcript file: `pairs`
folders      as pairs, with a folder for each speaker and, in it, one for each style:
             anna/whisper/b.wav
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from extras.layouts.columns import judge
from extras.layouts.pairs import cut_command, read_pairs, speakers_by_folder
from extras.layouts.transcripts import find_transcripts, table_of
from train.dataset.entries import (
    DatasetError,
    names_recording,
    names_sound,
    recording_folders,
    short,
    unread_note,
)
from train.dataset.metadata import FILES, columns_by_header, no_folder
from train.dataset.rows import Transcript, add_styles, entries_of, folders_note
from train.dataset.tables import Columns, Table, is_label, most_common_width

_MAX_AFTER_HEADER = 20


def read(folder: Path, form: str, language: str) -> Transcript:
    """Every row of the dataset in `folder`.

    Args:
        form: auto, pairs, folders, or the name of a format with its own files.
        language: LANGUAGE.

    Raises DatasetError, for a recording with the command that cuts it.
    """
    if not folder.is_dir():
        if not names_sound(folder.name):
            raise DatasetError(no_folder(folder))
        line = cut_command([folder], folder.with_suffix(""), language)
        raise DatasetError(f"DATASET_DIR={folder} is a recording. Cut it into clips first: {line}")
    if form == "folders":
        transcript = Transcript(read_pairs(folder, language), f"{folder}, a folder for each speaker")
        named = speakers_by_folder(transcript.entries)
        for entry, (speaker, _) in zip(transcript.entries, named, strict=True):
            entry.speaker = speaker
        add_styles(transcript, [style for _, style in named])
        return transcript
    if form == "pairs":
        return _read_from_pairs(folder, language, ())
    transcripts = find_transcripts(folder, FILES.get(form, ()))
    if not transcripts.train:
        return _read_from_pairs(folder, language, transcripts.unread)
    tables = [table_of(path) for path in transcripts.train]
    tables += [replace(table_of(path), validation=True) for path in transcripts.validation]
    columns = _columns_by_path(tables, folder, language)
    return entries_of(folder, tables, columns, transcripts.unread, language)


def _read_from_pairs(folder: Path, language: str, unread: Sequence[Path]) -> Transcript:
    pairs = read_pairs(folder, language, unread)
    notes = [unread_note(folder, unread)] if unread else []
    notes += folders_note(pairs, "set DATASET_FORMAT=folders")
    return Transcript(pairs, f"{folder}, a text for each recording", notes)


def _columns_by_path(tables: Sequence[Table], folder: Path, language: str) -> dict[Path, Columns]:
    """The columns of each file, from its header or, without one, from the rows of all files of that
    width, because a few validation clips show too little."""
    columns = columns_by_header(tables)
    without_header = [table for table in tables if table.rows and table.path not in columns]
    widths = {table.path: most_common_width(table.rows) for table in without_header}
    for width in set(widths.values()):
        same_width = [table for table in without_header if widths[table.path] == width]
        columns_of_width = Columns({"path": 0, "text": 1}, 2, by_rows=True)
        if width > 1:
            path = same_width[0].path
            rows = [row for table in same_width for row in table.rows if len(row) == width]
            exists = partial(names_recording, folders=recording_folders(path, folder))
            columns_of_width = judge(rows, exists, language, str(path))
            for table in same_width:
                _refuse_header(table, columns_of_width, exists)
        columns |= dict.fromkeys((table.path for table in same_width), columns_of_width)
    return columns


def _refuse_header(table: Table, columns: Columns, exists: Callable[[str], bool]) -> None:
    """Refuses an unknown header: a first line of labels without a recording, if the next lines name
    recordings."""
    path_index, text_index = columns.places["path"], columns.places["text"]
    first, *others = (row for row in table.rows if len(row) == columns.width)
    if (
        len(others) > 1
        and is_label(first[text_index])
        and not exists(first[path_index])
        and all(exists(cells[path_index]) for cells in others[:_MAX_AFTER_HEADER])
    ):
        raise DatasetError(
            f"{table.path} begins with {short(' '.join(first))!r}, which does not name its "
            f"{len(first)} columns. Write a header line that names them, such as "
            "file_name,text or file_name,text,speaker,language."
        )
