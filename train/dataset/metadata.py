"""Reads transcript files: LJSpeech metadata.csv, Coqui's train and eval CSV, tables with a header.

    ljspeech   metadata.csv            id|text[|normalised or speaker] clips in wavs/
    coqui      metadata.csv, or        path|text[|speaker[|language]]  with or without a header line
               metadata_train.csv and metadata_val.csv
    columns    metadata.csv or .tsv    columns that are named, by comma, semicolon, tab or `|`; a
                                       `style` beside the speaker makes `anna:whisper`
    pairs      a.wav and a.txt         no transcript file              `train.dataset.layouts`
    folders    anna/a.wav and a.txt    as pairs; a folder for each speaker, and in it one for each
                                       style: anna/whisper/b.wav
    NAME       any formatter of `TTS.tts.datasets.formatters`          `train.dataset.layouts`

A fault of form refuses the whole file, with the line and what was seen: a row that is misread would
teach wrong words in silence. Faults of a single clip are judged later, by `train.dataset.dataset`.
"""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from train.dataset.entries import (
    DEFAULT_SPEAKER,
    EXTENSIONS,
    SOUND_EXTENSIONS,
    DatasetError,
    TranscriptEntry,
    delimiter_of,
    fields,
    find_recording,
    lines,
    relative_name,
    unsafe,
)
from train.dataset.layouts import by_folder, cut_line, read_by_formatter, read_pairs
from xtts.text.markup import STYLE_MARK

log = logging.getLogger("train")

_TABLES = ("metadata.csv", "metadata.tsv")
_COQUI_HEADER = ("audio_file", "text", "speaker_name", "language")
_MOST_FAULTS_SHOWN = 10
# Of each column of a table, the first name that its header has.
_COLUMN_NAMES: Mapping[str, Sequence[str]] = {
    "path": ("file_name", "filename", "audio_file", "audio_path", "audio", "wav_path", "wav",
             "path", "file", "clip", "id"),
    "text": ("normalized_text", "text", "transcription", "transcript", "sentence"),
    "speaker": ("speaker_name", "speaker", "speaker_id", "client_id"),
    "language": ("language", "lang", "locale"),
    "style": ("style", "speaking_style"),
}  # fmt: skip
# Of the characters of a text and of its normalised form, so many are the same, whatever the order.
# LJSpeech's own: 0.98 (median); a name beside a sentence: below 0.2.
_SAME_CHARACTERS = 0.4
_MOST_LABEL_WORDS, _MOST_LABEL_CHARACTERS = 3, 40
_NO_STYLE = frozenset({"", "neutral", "normal", "default", "none"})
_SENTENCE_ENDS = tuple(".!?…。！？")


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
        entries = _columns(_table(folder) or folder / _TABLES[0], language)
    elif form == "pairs":
        entries = read_pairs(folder, language)
    elif form == "folders":
        pairs = read_pairs(folder, language)
        entries = with_styles(*by_folder(pairs))
    else:
        entries = read_by_formatter(folder, form, language)
    if not entries:
        raise DatasetError(f"The transcript in {folder} holds no row. Write one row for each clip.")
    for name, count in Counter(entry.name for entry in entries).items():
        if count > 1:
            raise DatasetError(
                f"The transcript in {folder} names {name!r} twice. Keep the row with the "
                "right text."
            )
    return entries


def _no_folder(path: Path, language: str) -> str:
    if path.is_file() and path.suffix.lower() in SOUND_EXTENSIONS:
        line = cut_line([path], path.with_suffix(""), language)
        return f"DATASET_DIR={path} is a recording. Cut it into clips first: {line}"
    return f"DATASET_DIR={path} is not a folder. Name the folder that holds metadata.csv and wavs/."


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
    if cells[0] == _COQUI_HEADER[0] or cells[0].lower().endswith(EXTENSIONS):
        return "coqui"
    return "columns" if _columns_of(cells) else "ljspeech"


# Rows by position


def _ljspeech(folder: Path, language: str) -> list[TranscriptEntry]:
    path = folder / "metadata.csv"
    allowed = "id|text or id|text|normalised text"
    rows = [[*cells, ""][:3] for cells in _rows(path, (2, 3), allowed)]
    kind = third_column([(text, third) for _, text, third in rows])
    if kind is None:
        _, text, third = next(row for row in rows if row[2])
        raise DatasetError(
            f"{path}: the third column is neither a normalised text nor a speaker: "
            f"{_short(third)!r} beside {_short(text)!r}. Remove it, or write a header line that "
            "names the columns, such as id|text|duration."
        )
    if kind == "speaker":
        log.info("%s: the third column is read as the speaker, not as a text.", path)
    entries = []
    for name, text, third in rows:
        spoken, speaker = (text, third) if kind == "speaker" else (third or text, "")
        recording = find_recording((folder / "wavs",), name)
        entries.append(
            TranscriptEntry(name, recording, spoken, speaker or DEFAULT_SPEAKER, language)
        )
    return entries


def third_column(rows: Sequence[tuple[str, str]]) -> Literal["text", "speaker"] | None:
    """What the third column of an LJSpeech transcript is, by its rows (second field, third field).

    LJSpeech itself writes `id|text|normalised text`; many who use its layout write
    `id|text|speaker`. Read wrongly, a voice would learn to say its speaker's name for every clip.

    Returns:
        "text", "speaker", or None when the column is neither: durations, phonemes, translations.
    """
    filled = [(text, third) for text, third in rows if third]
    texts = sum(_says_the_same(text, third) for text, third in filled)
    if not filled or 2 * texts > len(filled):
        return "text"
    labels = [third for _, third in filled]
    # Everybody has a name of their own only in tiny datasets.
    repeated = len(set(labels)) < len(labels) or len(labels) == 1
    return "speaker" if repeated and all(map(_is_label, labels)) else None


def _says_the_same(text: str, third: str) -> bool:
    one, other = (Counter(part.lower()) for part in (text, third))
    shared = (one & other).total() / max(one.total(), other.total(), 1)
    ends = third.endswith(_SENTENCE_ENDS)
    return shared >= _SAME_CHARACTERS or (ends and len(third) > len(text) / 2)


def _is_label(third: str) -> bool:
    short = len(third) <= _MOST_LABEL_CHARACTERS and len(third.split()) <= _MOST_LABEL_WORDS
    return short and not third.endswith(_SENTENCE_ENDS) and any(map(str.isalpha, third))


def _coqui(folder: Path, language: str) -> list[TranscriptEntry]:
    train, held_out = folder / "metadata_train.csv", folder / "metadata_val.csv"
    files: dict[Path, bool | None] = {train: None}
    if not train.is_file():
        files = {folder / "metadata.csv": None}
    elif held_out.is_file():
        files = {train: False, held_out: True}
    allowed = "path|text, path|text|speaker or path|text|speaker|language"
    entries = []
    for path, validation in files.items():
        for cells in _rows(path, (2, 3, 4), allowed):
            name, text, speaker, spoken, *_ = [*cells, "", ""]
            recording = find_recording((folder, folder / "wavs"), name)
            speaker, spoken = speaker or DEFAULT_SPEAKER, spoken or language
            entries.append(TranscriptEntry(name, recording, text, speaker, spoken, validation))
    return entries


def _rows(path: Path, widths: tuple[int, ...], allowed: str) -> list[list[str]]:
    """The fields of each row, without the header that Coqui's files may have."""
    faults: list[str] = []
    rows: list[list[str]] = []
    for row, (number, line) in enumerate(lines(path)):
        cells = fields(line, "|")
        cells[0] = relative_name(cells[0], path.parent)
        if row == 0 and cells[0] == _COQUI_HEADER[0]:
            if tuple(cells) != _COQUI_HEADER[: len(cells)]:
                faults.append(f"line {number} has the columns {_short(line)!r}")
        elif len(cells) not in widths:
            faults.append(f"line {number} has {len(cells)} fields: {_short(line)!r}")
        elif fault := unsafe(cells[0]):
            faults.append(f"line {number} names {_short(cells[0])!r}: {fault}")
        else:
            rows.append(cells)
    _refuse(path, faults, f"A row is {allowed}.")
    return rows


# Columns by name


def _columns(path: Path, language: str) -> list[TranscriptEntry]:
    """Every row of a table whose header names its columns, in any order; other columns are logged
    and left alone. A table of two columns may go without the header: recording, then text."""
    rows = list(lines(path))
    if not rows:
        return []
    delimiter = delimiter_of(rows[0][1])
    header = fields(rows[0][1], delimiter)
    if places := _columns_of(header):
        rows = rows[1:]
        if others := [one for at, one in enumerate(header) if at not in places.values()]:
            log.info("%s: the columns %s are ignored.", path, ", ".join(others))
    elif len(header) == 2 and header[0].lower().endswith(SOUND_EXTENSIONS):
        places = {"path": 0, "text": 1}
    else:
        raise DatasetError(
            f"{path} begins with {' '.join(header)[:60]!r}, which does not name its "
            f"{len(header)} columns. Write a header line that names them, such as "
            "file_name,text or file_name,text,speaker,language."
        )
    folders = [path.parent / one for one in ("", "wavs", "clips", "audio")]
    faults: list[str] = []
    entries: list[TranscriptEntry] = []
    styles: list[str] = []
    for number, line in rows:
        cells = fields(line, delimiter)
        if len(cells) != len(header):
            faults.append(f"line {number} has {len(cells)} fields instead of {len(header)}")
            continue
        row = {field: cells[place] for field, place in places.items()}
        name = relative_name(row["path"], path.parent)
        if fault := unsafe(name):
            faults.append(f"line {number} names {_short(name)!r}: {fault}")
            continue
        speaker = row.get("speaker") or DEFAULT_SPEAKER
        spoken = row.get("language") or language
        entries.append(
            TranscriptEntry(name, find_recording(folders, name), row["text"], speaker, spoken)
        )
        styles.append(row.get("style", ""))
    called = {",": "a comma", ";": "a semicolon", "\t": "a tab"}.get(delimiter, f"a {delimiter!r}")
    rule = f'A text with {called} must be in quotation marks: "Yes, of course."'
    _refuse(path, faults, rule)
    return with_styles(entries, styles)


def with_styles(entries: Sequence[TranscriptEntry], styles: Sequence[str]) -> list[TranscriptEntry]:
    """Rows with the style of each as a part of its speaker's name: `anna:whisper`. An empty style,
    and `neutral`, is the speaker as usual; a column of descriptions is no style."""
    if not all(_is_label(style) for style in styles if style):
        log.info("The column of styles holds more than names of styles; it is ignored.")
        return list(entries)
    return [
        replace(entry, speaker=f"{entry.speaker}{STYLE_MARK}{style.strip()}")
        if style.strip().lower() not in _NO_STYLE
        else entry
        for entry, style in zip(entries, styles, strict=True)
    ]


def _columns_of(header: Sequence[str]) -> dict[str, int] | None:
    """Where each field stands, by a header line; None when the line is no header."""
    names = [cell.lower().replace(" ", "_") for cell in header]
    columns = {
        field: names.index(name)
        for field, known in _COLUMN_NAMES.items()
        if (name := next((one for one in known if one in names), None)) is not None
    }
    return columns if {"path", "text"} <= columns.keys() else None


def _refuse(path: Path, faults: Sequence[str], rule: str) -> None:
    if faults:
        shown, more = "; ".join(faults[:_MOST_FAULTS_SHOWN]), len(faults) - _MOST_FAULTS_SHOWN
        raise DatasetError(f"{path}: {shown}{f'; and {more} more' if more > 0 else ''}. {rule}")


def _short(line: str) -> str:
    return line if len(line) <= 60 else line[:60] + "…"
