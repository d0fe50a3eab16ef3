"""Reads transcript files: LJSpeech metadata.csv, Coqui's train and eval CSV; finds other layouts.

    ljspeech   metadata.csv            id|text[|normalised or speaker] clips in wavs/
    coqui      metadata.csv, or        path|text[|speaker[|language]]  with or without a header line
               metadata_train.csv and metadata_val.csv
    columns    metadata.csv or .tsv    columns that are named          `train.dataset.columns`
    pairs      a.wav and a.txt         no transcript file              `…text_beside_sound`
    NAME       any formatter of `TTS.tts.datasets.formatters`, by its name

A fault of form refuses the whole file, with the line and what was seen: a row that is misread would
teach wrong words in silence. Faults of a single clip are judged later, by `train.dataset.dataset`.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from train.dataset.columns import columns_of, read_columns
from train.dataset.entries import (
    DEFAULT_SPEAKER,
    EXTENSIONS,
    LONGEST_SECONDS,
    DatasetError,
    TranscriptEntry,
    find_recording,
    relative_name,
    unsafe,
)
from train.dataset.text_beside_sound import cut_line, read_pairs
from train.dataset.third_column import third_column
from train.dataset.transcript_lines import delimiter_of, fields, lines
from xtts.foreign_sound import FOREIGN_EXTENSIONS

log = logging.getLogger("train")

_TABLES = ("metadata.csv", "metadata.tsv")
_HEADER = ("audio_file", "text", "speaker_name", "language")
_MOST_FAULTS_SHOWN = 10


def read_entries(folder: Path, form: str, language: str) -> list[TranscriptEntry]:
    """Every row of the dataset in `folder`, in the order of its files.

    Raises DatasetError for a missing folder or file, rows of the wrong form, names that leave the
    folder, and names that occur twice.
    """
    if not folder.is_dir():
        raise DatasetError(_no_folder(folder, language))
    form = _form(folder) if form == "auto" else form
    if form == "ljspeech":
        entries = _ljspeech(folder, language)
    elif form == "coqui":
        entries = _coqui(folder, language)
    elif form == "columns":
        entries = read_columns(_table(folder) or folder / _TABLES[0], language)
    elif form == "pairs":
        entries = read_pairs(folder, language, LONGEST_SECONDS)
    else:
        from train.dataset.formatters import read_by_formatter

        entries = read_by_formatter(folder, form, language)
    if not entries:
        raise DatasetError(f"The transcript in {folder} holds no row; write one row for each clip.")
    _refuse_twins(entries, folder)
    return entries


def _no_folder(path: Path, language: str) -> str:
    if path.is_file() and path.suffix.lower() in (*EXTENSIONS, *FOREIGN_EXTENSIONS):
        line = cut_line([path], path.with_suffix(""), language)
        return f"DATASET_DIR={path} is a recording. Cut it into clips first: {line}"
    return f"DATASET_DIR={path} is no folder. Name the folder that holds metadata.csv and wavs/."


def _table(folder: Path) -> Path | None:
    return next((folder / name for name in _TABLES if (folder / name).is_file()), None)


def _form(folder: Path) -> str:
    """What `auto` finds: two files are Coqui's; one is read by its first row; none are pairs."""
    if (folder / "metadata_train.csv").is_file():
        return "coqui"
    path = _table(folder)
    if path is None:
        return "pairs"
    first = next((line for _, line in lines(path)), "")
    delimiter = delimiter_of(first)
    cells = fields(first, delimiter)
    if delimiter != "|" or path.suffix == ".tsv":
        return "columns"
    if cells[0] == _HEADER[0] or cells[0].lower().endswith(EXTENSIONS):
        return "coqui"
    return "columns" if columns_of(cells) else "ljspeech"


def _ljspeech(folder: Path, language: str) -> list[TranscriptEntry]:
    path = folder / "metadata.csv"
    thirds: list[str] = []

    def entry(cells: list[str]) -> TranscriptEntry:
        identity, text, third = [*cells, ""][:3]
        thirds.append(third)
        recording = find_recording((folder / "wavs",), identity)
        return TranscriptEntry(identity, recording, text, DEFAULT_SPEAKER, language)

    entries = _rows(path, (2, 3), "id|text or id|text|normalised text", entry)
    kind = third_column([(one.text, third) for one, third in zip(entries, thirds, strict=True)])
    if kind is None:
        text, third = next((e.text, t) for e, t in zip(entries, thirds, strict=True) if t)
        raise DatasetError(
            f"{path}: the third column is neither the text in other words nor a speaker: "
            f"{_short(third)!r} beside {_short(text)!r}. Remove it, or write a header line that "
            "names the columns, such as id|text|duration."
        )
    if kind == "speaker":
        log.info("%s: the third column is read as the speaker, not as a text.", path)
        return [
            replace(one, speaker=third or DEFAULT_SPEAKER)
            for one, third in zip(entries, thirds, strict=True)
        ]
    return [
        replace(one, text=third or one.text) for one, third in zip(entries, thirds, strict=True)
    ]


def _coqui(folder: Path, language: str) -> list[TranscriptEntry]:
    def entry_of(validation: bool | None) -> Callable[[list[str]], TranscriptEntry]:
        def entry(cells: list[str]) -> TranscriptEntry:
            name, text, speaker, spoken, *_ = [*cells, "", ""]
            recording = find_recording((folder, folder / "wavs"), name)
            return TranscriptEntry(
                name, recording, text, speaker or DEFAULT_SPEAKER, spoken or language, validation
            )

        return entry

    allowed = "path|text, path|text|speaker or path|text|speaker|language"
    train, held_out = folder / "metadata_train.csv", folder / "metadata_val.csv"
    if not train.is_file():
        return _rows(folder / "metadata.csv", (2, 3, 4), allowed, entry_of(None))
    entries = _rows(train, (2, 3, 4), allowed, entry_of(False if held_out.is_file() else None))
    if held_out.is_file():
        entries += _rows(held_out, (2, 3, 4), allowed, entry_of(True))
    return entries


def _rows(
    path: Path, widths: tuple[int, ...], allowed: str, entry: Callable[[list[str]], TranscriptEntry]
) -> list[TranscriptEntry]:
    faults: list[str] = []
    entries: list[TranscriptEntry] = []
    for row, (number, line) in enumerate(lines(path)):
        cells = fields(line, "|")
        cells[0] = relative_name(cells[0], path.parent)
        if row == 0 and cells[0] == _HEADER[0]:
            if tuple(cells) != _HEADER[: len(cells)]:
                faults.append(f"line {number} has the columns {_short(line)!r}")
        elif len(cells) not in widths:
            faults.append(f"line {number} has {len(cells)} fields: {_short(line)!r}")
        elif fault := unsafe(cells[0]):
            faults.append(f"line {number} names {_short(cells[0])!r}: {fault}")
        else:
            entries.append(entry(cells))
    if faults:
        shown = "; ".join(faults[:_MOST_FAULTS_SHOWN])
        more = len(faults) - _MOST_FAULTS_SHOWN
        raise DatasetError(
            f"{path}: {shown}{f'; and {more} more' if more > 0 else ''}. A row is {allowed}."
        )
    return entries


def _refuse_twins(entries: list[TranscriptEntry], folder: Path) -> None:
    seen: set[str] = set()
    for entry in entries:
        if entry.name in seen:
            raise DatasetError(
                f"The transcript in {folder} names {entry.name!r} twice. Which of the two texts is "
                "right? Keep one row."
            )
        seen.add(entry.name)


def _short(line: str) -> str:
    return line if len(line) <= 60 else line[:60] + "…"
