"""Turns the rows of a transcript into clips: file, text, speaker, language and style of each.

    rows         metadata.csv and many other names and forms: `train.dataset.transcripts` reads the
                 files, `train.dataset.columns` judges their columns. A `style` column makes the
                 speaker `anna:whisper`
    pairs        a.wav and a.txt, without a transcript file: `train.dataset.layouts`
    folders      as pairs, with a folder for each speaker and, in it, one for each style:
                 anna/whisper/b.wav
    NAME         a formatter of `TTS.tts.datasets.formatters`: `train.dataset.layouts`

A malformed row refuses the whole file, with its line and content: a misread row would silently
teach wrong words. `train.dataset.dataset` checks single clips later.
"""

import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PureWindowsPath

from machine.text import plain_name
from train.dataset.columns import (
    NO_NAMES,
    SPLITS,
    Columns,
    is_label,
    is_sentence,
    judged,
    language_of,
    named,
)
from train.dataset.entries import (
    DEFAULT_SPEAKER,
    SOUND_EXTENSIONS,
    DatasetError,
    TranscriptEntry,
    find_recording,
    relative_name,
    unsafe,
)
from train.dataset.layouts import (
    by_folder,
    corpus_speakers,
    cut_line,
    read_by_formatter,
    read_pairs,
)
from train.dataset.transcripts import (
    RECORDING_FOLDERS,
    Row,
    Table,
    Transcripts,
    find_transcripts,
    most_common_width,
    table_of,
    unread_note,
)
from xtts.text.language_names import tag_of
from xtts.text.markup import STYLE_MARK

# The files that each named format reads.
_FILES = {
    "ljspeech": ("metadata.csv",),
    "coqui": ("metadata_train.csv", "metadata.csv"),
    "columns": ("metadata.csv", "metadata.tsv"),
}
_MOST_FAULTS_SHOWN = 10
_ROWS_SHOWN = 3
_MOST_AFTER_HEADER = 20
_NO_STYLE = frozenset({"", "neutral", "normal", "default", "none"})
_CALLED = {",": "a comma", ";": "a semicolon", "\t": "a tab"}


@dataclass(frozen=True)
class Transcript:
    """The rows of a dataset, in the order of its files.

    notes: how they were read; source: the files and their columns, for the table of rows.
    """

    entries: Sequence[TranscriptEntry]
    notes: Sequence[str] = ()
    source: str = ""

    def shown(self, folder: Path) -> str:
        """A table of a few rows as understood, from different speakers if possible."""
        rows = [("file", "text", "speaker", "language")]
        for entry in _some(self.entries):
            name = entry.path.relative_to(folder).as_posix() if _is_in(entry.path, folder) else ""
            missing = "" if entry.path.is_file() else " (no such file)"
            rows.append(
                (f"{name or entry.path}{missing}", _short(entry.text), entry.speaker,
                 entry.language)
            )  # fmt: skip
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        count = f"{len(rows) - 1} of {len(self.entries)} rows" if len(self.entries) > 1 else "1 row"
        return "\n".join([f"{self.source}: {count} as understood", *lines])


def read_entries(folder: Path, form: str, language: str) -> list[TranscriptEntry]:
    """The rows of `read_transcript`."""
    return list(read_transcript(folder, form, language).entries)


def read_transcript(folder: Path, form: str, language: str) -> Transcript:
    """Every row of the dataset in `folder`, in the order of its files.

    Raises DatasetError for a missing folder or file, malformed rows, ambiguous columns, names that
    leave the folder, and duplicate names.
    """
    if not folder.is_dir():
        raise DatasetError(_no_folder(folder, language))
    if form == "auto" or form in _FILES:
        transcripts = find_transcripts(folder, _FILES.get(form, ()))
        if transcripts.train:
            found = _of_rows(folder, transcripts, language)
        else:
            found = _of_pairs(folder, language, transcripts)
    elif form == "pairs":
        found = _of_pairs(folder, language, Transcripts(()))
    elif form == "folders":
        entries, notes = with_styles(*by_folder(read_pairs(folder, language)))
        found = Transcript(entries, notes, f"{folder}, a folder for each speaker")
    else:
        found = Transcript(
            read_by_formatter(folder, form, language), (), f"{folder}, read by TTS's {form}"
        )
    if not found.entries:
        raise DatasetError(f"The transcript in {folder} holds no row. Write one row for each clip.")
    found = _one_spelling(found)
    _refuse_repeated(found.entries, folder)
    _refuse_misread(found.entries, folder)
    return found


def _no_folder(path: Path, language: str) -> str:
    if path.is_file() and path.suffix.lower() in SOUND_EXTENSIONS:
        line = cut_line([path], path.with_suffix(""), language)
        return f"DATASET_DIR={path} is a recording. Cut it into clips first: {line}"
    return f"DATASET_DIR={path} is not a folder. Name the folder that holds metadata.csv and wavs/."


def _of_pairs(folder: Path, language: str, transcripts: Transcripts) -> Transcript:
    pairs = read_pairs(folder, language, transcripts.unread)
    notes = [unread_note(folder, transcripts)] if transcripts.unread else []
    notes += _folders_note(pairs, "set DATASET_FORMAT=folders")
    return Transcript(pairs, notes, f"{folder}, a text for each recording")


def _one_spelling(found: Transcript) -> Transcript:
    """Gives each speaker and style one spelling, the first: names that differ only in case, spaces
    or the composition of accents are one name everywhere else, too."""
    spellings, other = dict[str, str](), dict[str, str]()
    entries = list[TranscriptEntry]()
    for entry in found.entries:
        parts = list[str]()
        for part in entry.speaker.split(STYLE_MARK):
            composed = " ".join(unicodedata.normalize("NFC", part).split())
            parts.append(spellings.setdefault(plain_name(part), composed))
            if composed != parts[-1]:
                other.setdefault(composed, parts[-1])
        entries.append(replace(entry, speaker=STYLE_MARK.join(parts)))
    if not other:
        return replace(found, entries=entries)
    pairs = ", ".join(f"{one} = {name}" for one, name in list(other.items())[:_MOST_FAULTS_SHOWN])
    note = f"Speakers whose names differ only in case are one: {pairs}."
    return replace(found, entries=entries, notes=[*found.notes, note])


def _folders_note(entries: Sequence[TranscriptEntry], remedy: str) -> list[str]:
    """A note if the recordings of a single speaker are in several folders."""
    if any(entry.speaker != DEFAULT_SPEAKER for entry in entries):
        return []
    folders = {entry.path.parent for entry in entries}
    people = {one for one in folders if one.name.casefold() not in (*SPLITS, *RECORDING_FOLDERS)}
    if len(people) < 2:
        return []
    return [f"The {len(people)} folders are read as one speaker. If each folder is another person, "
            f"{remedy}."]  # fmt: skip


def _refuse_repeated(entries: Sequence[TranscriptEntry], folder: Path) -> None:
    for name, count in Counter(entry.name for entry in entries).items():
        if count > 1:
            raise DatasetError(
                f"The transcript in {folder} names {name!r} twice. Keep the row with the "
                "right text."
            )


def _refuse_misread(entries: Sequence[TranscriptEntry], folder: Path) -> None:
    """Refuses rows whose columns seem to be confused: a sentence as the speaker, or one text for
    all clips."""
    spoken_to = Counter(entry.speaker for entry in entries)
    if sentence := next((one for one in spoken_to if is_sentence(one)), None):
        text = next(entry.text for entry in entries if entry.speaker == sentence)
        raise DatasetError(
            f"The speakers in {folder} are sentences, such as {_short(sentence)!r} with the "
            f"text {_short(text)!r}. If the columns are file|speaker|text, write that as a "
            "header line; if they are file|text|speaker, correct the speakers."
        )
    if (
        len(entries) > 1
        and len(texts := {entry.text for entry in entries}) == 1
        and (text := texts.pop())
    ):
        raise DatasetError(
            f"All {len(entries)} clips of {folder} have the same text, {_short(text)!r}. If that "
            "is a speaker, write a header line that names the columns, such as file|speaker|text. "
            "If it is the text, add clips with other texts."
        )


# Rows of a file


def _of_rows(folder: Path, transcripts: Transcripts, language: str) -> Transcript:
    entries, notes = list[TranscriptEntry](), list[str]()
    files = (*transcripts.train, *transcripts.validation)
    tables = [table for path in files if (table := table_of(path)).rows]
    columns = _columns(tables, folder, language)
    for table, known in zip(tables, columns, strict=True):
        read = _of_table(folder, table, known, language)
        held_out = table.path in transcripts.validation if transcripts.validation else None
        entries += [
            entry if held_out is None else replace(entry, validation=held_out)
            for entry in read.entries
        ]
        notes += [note for note in read.notes if note not in notes]
    if transcripts.validation:
        entries, more = _once(entries, transcripts)
        notes += more
    entries = corpus_speakers(entries, folder)
    notes += _folders_note(entries, "add a column with the name of each clip's speaker")
    if note := unread_note(folder, transcripts):
        notes.append(note)
    names = [path.relative_to(folder).as_posix() for path in files]
    listed = " and ".join(names) if len(names) < 3 else f"{len(names)} files, such as {names[0]}"
    spelled = f" ({columns[0].spelled()})" if columns else ""
    return Transcript(entries, notes, f"{folder}: {listed}{spelled}")


def _columns(tables: Sequence[Table], folder: Path, language: str) -> list[Columns]:
    """The columns of each file, from its header or, without one, from the rows of all files of that
    width, because a few validation clips show too little."""
    widths = [most_common_width(table.rows) for table in tables]
    found = [named(table.rows[0].cells) for table in tables]
    for width in {width for width, columns in zip(widths, found, strict=True) if not columns}:
        alike = [
            place for place, columns in enumerate(found) if not columns and widths[place] == width
        ]
        some = [tables[place] for place in alike]
        usual = [row.cells for table in some for row in table.rows if len(row.cells) == width]
        if width > 1:
            exists = partial(_exists, _places(some[0], folder))
            known = judged(usual, exists, language, str(some[0].path))
        else:
            known = Columns({"path": 0, "text": 1}, 2, by_rows=True)
        for place in alike:
            if width > 1:
                _refuse_header(tables[place], known, exists)
            found[place] = known
    return [columns for columns in found if columns]


def _once(
    entries: Sequence[TranscriptEntry], transcripts: Transcripts
) -> tuple[list[TranscriptEntry], list[str]]:
    """Removes training rows that repeat the recording and text of a validation row. A validation
    file that holds all training clips is not used."""
    held_out = {(one.path, one.text) for one in entries if one.validation}
    train = [one for one in entries if not one.validation]
    kept = [one for one in train if (one.path, one.text) not in held_out]
    names = [path.name for path in (*transcripts.train, *transcripts.validation)]
    if train and not kept:
        known = {(one.path, one.text) for one in train}
        others = [one for one in entries if one.validation and (one.path, one.text) not in known]
        return [replace(one, validation=None) for one in (*train, *others)], [
            f"{names[-1]} holds all clips of {names[0]}, so it is not used as the validation set."
        ]
    if len(train) == len(entries):
        note = f"{names[-1]} holds no clip, so the validation clips are chosen from {names[0]}."
        return [replace(one, validation=None) for one in train], [note]
    note = f"{names[-1]} is the validation set: {_clips(len(entries) - len(train))}."
    if twice := len(train) - len(kept):
        note += f" {_clips(twice)} of {names[0]}, in both files, left out of training."
    return [*kept, *(one for one in entries if one.validation)], [note]


def _of_table(folder: Path, table: Table, columns: Columns, language: str) -> Transcript:
    """The rows of one file with known columns."""
    path, rows = table.path, table.rows
    notes = list[str]()
    if not columns.by_rows:
        header, rows = rows[0].cells, rows[1:]
        used = columns.places.values()
        others = [one for at, one in enumerate(header) if one and at not in used]
        if others:
            notes.append(f"{path.name}: the columns {', '.join(others)} are ignored.")
    for at, kind in columns.ignored.items():
        labels = sorted({row.cells[at] for row in rows if at < len(row.cells) and row.cells[at]})
        advice = (
            " To keep each as a style, name the column `style` in a header line, such as "
            "file_name|text|style."
        )
        notes.append(
            f"{path.name}: column {at + 1} holds {kind} ({', '.join(labels[:_ROWS_SHOWN])}), not "
            f"speakers, and is ignored.{advice if kind == 'emotions' else ''}"
        )
    if "split" in columns.places:
        rows, more = _in_use(rows, columns.places["split"], path)
        notes += more
    places = _places(table, folder)
    read = [_entry_of(row, columns, table, places, language) for row in rows]
    _refuse(path, [fault for fault in read if isinstance(fault, str)], _rule(table, columns))
    found = [one for one in read if not isinstance(one, str)]
    entries = [one.entry for one in found]
    if all(one.validation is not False for one in entries):
        entries = [replace(one, validation=None) for one in entries]
    if path.parent != folder:
        below = path.parent.relative_to(folder)
        entries = [replace(one, name=(below / one.name).as_posix()) for one in entries]
    unnamed = sum(1 for entry in entries if entry.speaker == DEFAULT_SPEAKER)
    if "speaker" in columns.places and 0 < unnamed < len(entries):
        notes.append(f"{path.name}: {unnamed} rows name no speaker and count as one person.")
    if moved := [one.moved for one in found if one.moved]:
        notes.append(
            f"{path.name} names {len(moved)} recordings in other folders, such as "
            f"{_short(moved[0])!r}; the files of the same names in {folder} are read."
        )
    entries, more = with_styles(entries, [one.style for one in found])
    return Transcript(entries, [*notes, *more])


def _in_use(rows: Sequence[Row], place: int, path: Path) -> tuple[tuple[Row, ...], list[str]]:
    """The training and validation rows, by the column of splits."""
    splits = [row.cells[place].casefold() if place < len(row.cells) else "" for row in rows]
    if False not in map(SPLITS.get, splits):
        return tuple(rows), []  # a column of other words, or a file of one split
    kept = tuple(
        row for row, one in zip(rows, splits, strict=True) if SPLITS.get(one, False) is not None
    )
    held_out = sum(1 for one in splits if SPLITS.get(one))
    said = [f"{_clips(held_out)} for validation"] if held_out else []
    if tests := len(rows) - len(kept):
        said.append(f"{_clips(tests)} for tests, which {'is' if tests == 1 else 'are'} not read")
    return kept, [f"{path.name}: its split column marks {' and '.join(said)}."] if said else []


@dataclass(frozen=True)
class _ReadRow:
    """moved: the recording's name in the transcript, if it was found under a shorter one."""

    entry: TranscriptEntry
    style: str
    moved: str


def _entry_of(
    row: Row, columns: Columns, table: Table, places: Sequence[Path], language: str
) -> _ReadRow | str:
    """The entry of a row, or its fault."""
    if fault := _odd(row, columns, table):
        return fault
    cells = {
        role: row.cells[place] for role, place in columns.places.items() if place < len(row.cells)
    }
    if len(row.cells) > columns.width:
        cells["language"] = row.cells[-1]
    folder = table.path.parent
    name, recording = _located(cells["path"], places, folder)
    if unsafe_because := unsafe(name):
        return f"line {row.number} names {_short(name)!r}: {unsafe_because}"
    speaker = cells.get("speaker", "")
    speaker = DEFAULT_SPEAKER if speaker.casefold() in NO_NAMES else speaker
    if columns.by_rows and is_sentence(speaker):
        return f"line {row.number} has a sentence as its speaker: {_short(speaker)!r}"
    entry = TranscriptEntry(
        name, recording, cells.get("text") or cells.get("written", ""), speaker,
        _language(cells.get("language", ""), language),
        SPLITS.get(cells.get("split", "").casefold()),
    )  # fmt: skip
    moved = "" if name == relative_name(cells["path"], folder) else cells["path"]
    return _ReadRow(entry, cells.get("style", ""), moved)


def _places(table: Table, folder: Path) -> tuple[Path, ...]:
    """The folders that may hold the recordings; wavs/ is first for names without an ending, as in
    LJSpeech."""
    last = table.rows[-1].cells[0].lower().endswith(SOUND_EXTENSIONS)
    names = RECORDING_FOLDERS if last else (*RECORDING_FOLDERS[1:], RECORDING_FOLDERS[0])
    found = [root / one for root in (table.path.parent, folder) for one in names]
    return tuple(dict.fromkeys(one for one in found if one.is_dir()))


def _refuse_header(table: Table, columns: Columns, exists: Callable[[str], bool]) -> None:
    """Refuses an unknown header: a first line of labels without a recording, if the next lines name
    recordings."""
    place, text = columns.places["path"], columns.places["text"]
    first, *others = (row.cells for row in table.rows if len(row.cells) == columns.width)
    if (
        len(others) > 1
        and is_label(first[text])
        and not _is_sound(first[place], exists)
        and all(_is_sound(cells[place], exists) for cells in others[:_MOST_AFTER_HEADER])
    ):
        raise DatasetError(
            f"{table.path} begins with {_short(' '.join(first))!r}, which does not name its "
            f"{len(first)} columns. Write a header line that names them, such as "
            "file_name,text or file_name,text,speaker,language."
        )


def _is_sound(name: str, exists: Callable[[str], bool]) -> bool:
    return name.lower().endswith(SOUND_EXTENSIONS) or exists(name)


def _odd(row: Row, columns: Columns, table: Table) -> str:
    """The fault in a row's number of fields; "" if there is none. A row may omit the speaker, the
    language or the normalised text at its end, and may add its language."""
    count, wanted = len(row.cells), columns.width
    if count == wanted:
        return ""
    missing = set(range(count, wanted))
    if count > 1 and missing and missing <= columns.optional:
        return ""
    if (
        count == wanted + 1
        and wanted > 2
        and "language" not in columns.places
        and language_of(row.cells[-1])
    ):
        return ""
    line = (table.delimiter or "|").join(row.cells)
    return f"line {row.number} has {count} fields instead of {wanted}: {_short(line)!r}"


def _rule(table: Table, columns: Columns) -> str:
    called = _CALLED.get(table.delimiter, f"a {table.delimiter!r}")
    example = f'"Yes{table.delimiter or ","} of course."'
    quoted = f"A text with {called} must be in quotation marks: {example}"
    return f"A row is {columns.spelled()}. {quoted}"


def _language(cell: str, language: str) -> str:
    """The language of a row: the field if it is a code, else the code of the language it names."""
    code = language_of(cell)
    if not cell or (cell == cell.lower() and cell.partition("-")[0] == code):
        return cell or language
    return code or tag_of(cell) or language


def _located(name: str, places: Sequence[Path], folder: Path) -> tuple[str, Path]:
    """The name of a recording and its file. Tools write paths of the machine that made the
    transcript: if there is no such file, the dataset is searched for the last parts of the path."""
    name = relative_name(name, folder)
    if unsafe(name) is None and (path := find_recording(places, name)).is_file():
        return name, path
    parts = PureWindowsPath(name).parts
    if ".." not in parts and "\0" not in name:
        for first in range(1, len(parts)):
            shorter = "/".join(parts[first:])
            if unsafe(shorter) is None and (path := find_recording(places, shorter)).is_file():
                return shorter, path
    if unsafe(name):
        return name, folder
    # The expected path: LJSpeech's names lack an ending, and its recordings are in wavs/.
    plain = not name.lower().endswith(SOUND_EXTENSIONS) and (folder / "wavs").is_dir()
    return name, find_recording((folder / "wavs" if plain else folder,), name)


def _exists(places: Sequence[Path], name: str) -> bool:
    return _located(name, places, places[0])[1].is_file() if unsafe(name) is None else False


def with_styles(
    entries: Sequence[TranscriptEntry], styles: Sequence[str]
) -> tuple[list[TranscriptEntry], list[str]]:
    """Appends the style of each row to its speaker: `anna:whisper`. An empty or `neutral` style
    changes nothing. A column of descriptions is ignored, with a note."""
    if not all(is_label(style) for style in styles if style):
        note = "The style column holds more than names of styles and is ignored."
        return list(entries), [note]
    return [
        replace(entry, speaker=f"{entry.speaker}{STYLE_MARK}{style.strip()}")
        if style.strip().lower() not in _NO_STYLE
        else entry
        for entry, style in zip(entries, styles, strict=True)
    ], []


def _refuse(path: Path, faults: Sequence[str], rule: str) -> None:
    if faults:
        shown, more = "; ".join(faults[:_MOST_FAULTS_SHOWN]), len(faults) - _MOST_FAULTS_SHOWN
        raise DatasetError(f"{path}: {shown}{f'; and {more} more' if more > 0 else ''}. {rule}")


def _short(line: str) -> str:
    return line if len(line) <= 60 else line[:60] + "…"


def _clips(count: int) -> str:
    return "1 clip" if count == 1 else f"{count} clips"


def _some(entries: Sequence[TranscriptEntry]) -> list[TranscriptEntry]:
    """The first row, then rows of other speakers and languages or, if there are none, rows from the
    middle and the end."""
    first = dict[tuple[str, str], int]()
    for place, entry in enumerate(entries):
        first.setdefault((entry.speaker, entry.language), place)
        if len(first) == _ROWS_SHOWN:
            break
    spread = (len(entries) // 2, len(entries) - 1, *range(len(entries)))
    places = dict.fromkeys((*first.values(), *spread))
    return [entries[place] for place in sorted(list(places)[:_ROWS_SHOWN])]


def _is_in(path: Path, folder: Path) -> bool:
    return path.is_relative_to(folder)
