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
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from machine.text import counted, listed, plain_name, table
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
    RECORDING_FOLDERS,
    DatasetError,
    TranscriptEntry,
    located,
    names_recording,
    names_sound,
    recording_folders,
    relative_name,
    short,
    shown_path,
    unsafe,
)
from train.dataset.layouts import (
    by_folder,
    corpus_speakers,
    cut_line,
    read_by_formatter,
    read_pairs,
)
from train.dataset.tags import decoded, spoken, tags_note
from train.dataset.transcripts import (
    Row,
    Table,
    Transcripts,
    find_transcripts,
    most_common_width,
    table_of,
    unread_note,
)
from xtts.sound_endings import is_recording
from xtts.text.languages import tag_of
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


@dataclass
class Transcript:
    """The rows of a dataset, in the order of its files.

    source: the files and their columns, for the table of rows; notes: how they were read.
    """

    entries: list[TranscriptEntry]
    source: str
    notes: list[str] = field(default_factory=list)

    def shown(self, folder: Path) -> str:
        """A table of a few rows as understood, from different speakers if possible."""
        rows = [("file", "text", "speaker", "language")]
        for entry in _some(self.entries):
            missing = "" if entry.path.is_file() else " (no such file)"
            rows.append(
                (f"{shown_path(entry.path, folder)}{missing}", short(entry.text), entry.speaker,
                 entry.language)
            )  # fmt: skip
        count = f"{len(rows) - 1} of {len(self.entries)} rows" if len(self.entries) > 1 else "1 row"
        return "\n".join([f"{self.source}: {count} as understood", *table(rows)])


def read_entries(folder: Path, form: str, language: str) -> list[TranscriptEntry]:
    """The rows of `read_transcript`."""
    return read_transcript(folder, form, language).entries


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
        found = Transcript(read_pairs(folder, language), f"{folder}, a folder for each speaker")
        _add_styles(found, by_folder(found.entries))
    else:
        found = Transcript(
            read_by_formatter(folder, form, language), f"{folder}, read by TTS's {form}"
        )
    if not found.entries:
        raise DatasetError(f"The transcript in {folder} holds no row. Write one row for each clip.")
    _clean_texts(found)
    _unify_spellings(found)
    _refuse_repeated(found.entries, folder)
    _refuse_misread(found.entries, folder)
    return found


def _no_folder(path: Path, language: str) -> str:
    if path.is_file() and names_sound(path.name):
        line = cut_line([path], path.with_suffix(""), language)
        return f"DATASET_DIR={path} is a recording. Cut it into clips first: {line}"
    return f"DATASET_DIR={path} is not a folder. Name the folder that holds metadata.csv and wavs/."


def _of_pairs(folder: Path, language: str, transcripts: Transcripts) -> Transcript:
    pairs = read_pairs(folder, language, transcripts.unread)
    notes = [unread_note(folder, transcripts)] if transcripts.unread else []
    notes += _folders_note(pairs, "set DATASET_FORMAT=folders")
    return Transcript(pairs, f"{folder}, a text for each recording", notes)


def _clean_texts(found: Transcript) -> None:
    """Decodes HTML entities, and leaves out the tags of other tools and the names of speakers."""
    pairs = [decoded(entry.text) for entry in found.entries]
    tags = list[str]()
    for entry, text in zip(found.entries, spoken((text for text, _ in pairs), tags), strict=True):
        entry.text = text
    entities = dict.fromkeys(one for _, encoded in pairs for one in encoded)
    if entities:
        shown = listed(list(entities))
        found.notes.append(f"HTML entities in the texts are read as characters: {shown}.")
    if tags:
        found.notes.append(tags_note("Transcripts", tags))


def _unify_spellings(found: Transcript) -> None:
    """Gives each speaker and style one spelling, the first: names that differ only in case, spaces
    or the composition of accents are one name everywhere else, too."""
    spellings, other = dict[str, str](), dict[str, str]()
    for entry in found.entries:
        parts = list[str]()
        for part in entry.speaker.split(STYLE_MARK):
            composed = " ".join(unicodedata.normalize("NFC", part).split())
            parts.append(spellings.setdefault(plain_name(part), composed))
            if composed != parts[-1]:
                other.setdefault(composed, parts[-1])
        entry.speaker = STYLE_MARK.join(parts)
    if other:
        pairs = listed([f"{one} = {name}" for one, name in other.items()])
        found.notes.append(f"Speakers whose names differ only in case are one: {pairs}.")


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
            f"The speakers in {folder} are sentences, such as {short(sentence)!r} with the "
            f"text {short(text)!r}. If the columns are file|speaker|text, write that as a "
            "header line; if they are file|text|speaker, correct the speakers."
        )
    if (
        len(entries) > 1
        and len(texts := {entry.text for entry in entries}) == 1
        and (text := texts.pop())
    ):
        raise DatasetError(
            f"All {len(entries)} clips of {folder} have the same text, {short(text)!r}. If that "
            "is a speaker, write a header line that names the columns, such as file|speaker|text. "
            "If it is the text, add clips with other texts."
        )


# Rows of a file


def _of_rows(folder: Path, transcripts: Transcripts, language: str) -> Transcript:
    files = (*transcripts.train, *transcripts.validation)
    names = [path.relative_to(folder).as_posix() for path in files]
    some = " and ".join(names) if len(names) < 3 else f"{len(names)} files, such as {names[0]}"
    found, in_rows = Transcript([], f"{folder}: {some}"), set[Path]()
    tables = [rows for path in files if (rows := table_of(path)).rows]
    columns = _columns(tables, folder, language)
    for one, known in zip(tables, columns, strict=True):
        read = _of_table(folder, one, known, language, in_rows)
        for entry in read.entries if transcripts.validation else ():
            entry.validation = one.path in transcripts.validation
        found.entries += read.entries
        found.notes += [note for note in read.notes if note not in found.notes]
    if transcripts.validation:
        _leave_out_repeated(found, transcripts)
    corpus_speakers(found.entries)
    found.notes += _folders_note(found.entries, "add a column with the name of each clip's speaker")
    found.notes += filter(None, (unread_note(folder, transcripts), _rowless_note(folder, in_rows)))
    found.source += f" ({columns[0].spelled()})" if columns else ""
    return found


def _columns(tables: Sequence[Table], folder: Path, language: str) -> list[Columns]:
    """The columns of each file, from its header or, without one, from the rows of all files of that
    width, because a few validation clips show too little."""
    found = {table.path: columns for table in tables if (columns := named(table.rows[0].cells))}
    widths = {table: most_common_width(table.rows) for table in tables if table.path not in found}
    for width in set(widths.values()):
        alike = [table for table in widths if widths[table] == width]
        known = Columns({"path": 0, "text": 1}, 2, by_rows=True)
        if width > 1:
            usual = [row.cells for table in alike for row in table.rows if len(row.cells) == width]
            exists = partial(names_recording, folders=recording_folders(alike[0].path, folder))
            known = judged(usual, exists, language, str(alike[0].path))
            for table in alike:
                _refuse_header(table, known, exists)
        found |= dict.fromkeys((table.path for table in alike), known)
    return [found[table.path] for table in tables]


def _leave_out_repeated(found: Transcript, transcripts: Transcripts) -> None:
    """Removes training rows that repeat the recording and text of a validation row. A validation
    file that holds all training clips is not used."""
    held_out = {(one.path, one.text) for one in found.entries if one.validation}
    train = [one for one in found.entries if not one.validation]
    kept = [one for one in train if (one.path, one.text) not in held_out]
    held = [one for one in found.entries if one.validation]
    names = [path.name for path in (*transcripts.train, *transcripts.validation)]
    if held and (kept or not train):
        note = f"{names[-1]} is the validation set: {counted(len(held), 'clip')}."
        if twice := len(train) - len(kept):
            note += f" {counted(twice, 'clip')} of {names[0]}, in both files, left out of training."
        found.entries = [*kept, *held]
    else:
        known = {(one.path, one.text) for one in train}
        found.entries = [*train, *(one for one in held if (one.path, one.text) not in known)]
        for one in found.entries:
            one.validation = None
        has = f"all clips of {names[0]}" if held else "no clip"
        note = f"{names[-1]} holds {has}, so it is not used as the validation set."
    found.notes.append(note)


def _rowless_note(folder: Path, in_rows: Set[Path]) -> str:
    """A note that names the recordings beside those of the rows that have no row; "" without any.
    A copy in another format has the row of the original."""
    named = {path.with_suffix("") for path in in_rows if path.is_file()}
    beside = {path for place in {one.parent for one in named} for path in place.iterdir()}
    rowless = sorted(
        shown_path(path, folder) for path in beside
        if is_recording(path) and path.with_suffix("") not in named
    )  # fmt: skip
    if not rowless:
        return ""
    are = "1 recording has no row and is" if len(rowless) == 1 else (
        f"{len(rowless)} recordings have no row and are"
    )  # fmt: skip
    return f"{are} not used: {listed(rowless)}."


def _of_table(
    folder: Path, table: Table, columns: Columns, language: str, in_rows: set[Path]
) -> Transcript:
    """The rows of one file with known columns. Adds the recordings of all rows to `in_rows`."""
    path, found = table.path, Transcript([], "", _unused(table, columns))
    rows: Sequence[Row] = table.rows if columns.by_rows else table.rows[1:]
    places = recording_folders(path, folder)
    if "split" in columns.places:
        in_rows |= {
            located(relative_name(_cells_of(row, columns)["path"], path.parent), places)[1]
            for row in rows
        }
        rows = _in_use(rows, columns.places["split"], path, found.notes)
    faults, styles, moved = list[str](), list[str](), list[str]()
    for row in rows:
        cells = _cells_of(row, columns)
        name, recording = located(relative_name(cells["path"], path.parent), places)
        speaker = cells.get("speaker", "")
        if fault := _fault(row, columns, table, name, speaker):
            faults.append(fault)
            continue
        in_rows.add(recording)
        found.entries.append(
            TranscriptEntry(
                name if path.parent == folder
                else (path.parent.relative_to(folder) / name).as_posix(),
                recording, cells.get("text") or cells.get("written", ""),
                DEFAULT_SPEAKER if speaker.casefold() in NO_NAMES else speaker,
                _language(cells.get("language", ""), language),
                SPLITS.get(cells.get("split", "").casefold()),
            )
        )  # fmt: skip
        styles.append(cells.get("style", ""))
        if name != relative_name(cells["path"], path.parent):
            moved.append(cells["path"])
    if faults:
        shown, more = "; ".join(faults[:_MOST_FAULTS_SHOWN]), len(faults) - _MOST_FAULTS_SHOWN
        more_faults = f"; and {more} more" if more > 0 else ""
        raise DatasetError(f"{path}: {shown}{more_faults}. {_rule(table, columns)}")
    if all(one.validation is not False for one in found.entries):
        for one in found.entries:
            one.validation = None
    unnamed = sum(1 for entry in found.entries if entry.speaker == DEFAULT_SPEAKER)
    if "speaker" in columns.places and 0 < unnamed < len(found.entries):
        found.notes.append(f"{path.name}: {unnamed} rows name no speaker and count as one person.")
    if moved:
        found.notes.append(
            f"{path.name} names {len(moved)} recordings in other folders, such as "
            f"{short(moved[0])!r}; the files of the same names in {folder} are read."
        )
    _add_styles(found, styles)
    return found


def _unused(table: Table, columns: Columns) -> list[str]:
    """A note for each column or group of columns that is not read."""
    name, rows, notes = table.path.name, table.rows, list[str]()
    if not columns.by_rows:
        header, rows = rows[0].cells, rows[1:]
        used = columns.places.values()
        others = [one for at, one in enumerate(header) if one and at not in used]
        if others:
            notes.append(f"{name}: the columns {', '.join(others)} are ignored.")
    for at, kind in columns.ignored.items():
        labels = sorted({row.cells[at] for row in rows if at < len(row.cells) and row.cells[at]})
        advice = (
            " To keep each as a style, name the column `style` in a header line, such as "
            "file_name|text|style."
        )
        notes.append(
            f"{name}: column {at + 1} holds {kind} ({', '.join(labels[:_ROWS_SHOWN])}), not "
            f"speakers, and is ignored.{advice if kind == 'emotions' else ''}"
        )
    return notes


def _in_use(rows: Sequence[Row], place: int, path: Path, notes: list[str]) -> Sequence[Row]:
    """The training and validation rows, by the column of splits."""
    splits = [row.cells[place].casefold() if place < len(row.cells) else "" for row in rows]
    if False not in map(SPLITS.get, splits):
        return rows  # a column of other words, or a file of one split
    kept = [
        row for row, one in zip(rows, splits, strict=True) if SPLITS.get(one, False) is not None
    ]
    held_out = sum(1 for one in splits if SPLITS.get(one))
    marked = [f"{counted(held_out, 'clip')} for validation"] if held_out else []
    if tests := len(rows) - len(kept):
        are = "is" if tests == 1 else "are"
        marked.append(f"{counted(tests, 'clip')} for tests, which {are} not read")
    if marked:
        notes.append(f"{path.name}: its split column marks {' and '.join(marked)}.")
    return kept


def _cells_of(row: Row, columns: Columns) -> dict[str, str]:
    """The fields of a row by their roles."""
    cells = {role: row.cells[at] for role, at in columns.places.items() if at < len(row.cells)}
    if len(row.cells) > columns.width:
        cells["language"] = row.cells[-1]
    return {"path": "", **cells}


def _fault(row: Row, columns: Columns, table: Table, name: str, speaker: str) -> str:
    """The fault of a row; "" if there is none. A row may omit the speaker, the language or the
    normalised text at its end, and may add its language."""
    count, wanted = len(row.cells), columns.width
    missing = set(range(count, wanted))
    has_language = (
        count == wanted + 1
        and wanted > 2
        and "language" not in columns.places
        and language_of(row.cells[-1])
    )
    omits = count > 1 and missing and missing <= columns.optional
    if not (count == wanted or omits or has_language):
        line = (table.delimiter or "|").join(row.cells)
        return f"line {row.number} has {count} fields instead of {wanted}: {short(line)!r}"
    if unsafe_because := unsafe(name):
        return f"line {row.number} names {short(name)!r}: {unsafe_because}"
    if columns.by_rows and speaker.casefold() not in NO_NAMES and is_sentence(speaker):
        return f"line {row.number} has a sentence as its speaker: {short(speaker)!r}"
    return ""


def _refuse_header(table: Table, columns: Columns, exists: Callable[[str], bool]) -> None:
    """Refuses an unknown header: a first line of labels without a recording, if the next lines name
    recordings."""
    place, text = columns.places["path"], columns.places["text"]
    first, *others = (row.cells for row in table.rows if len(row.cells) == columns.width)
    if (
        len(others) > 1
        and is_label(first[text])
        and not exists(first[place])
        and all(exists(cells[place]) for cells in others[:_MOST_AFTER_HEADER])
    ):
        raise DatasetError(
            f"{table.path} begins with {short(' '.join(first))!r}, which does not name its "
            f"{len(first)} columns. Write a header line that names them, such as "
            "file_name,text or file_name,text,speaker,language."
        )


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


def _add_styles(found: Transcript, styles: Sequence[str]) -> None:
    """Appends the style of each row to its speaker: `anna:whisper`. An empty or `neutral` style
    changes nothing. A column of descriptions is ignored, with a note."""
    if not all(is_label(style) for style in styles if style):
        found.notes.append("The style column holds more than names of styles and is ignored.")
        return
    for entry, style in zip(found.entries, styles, strict=True):
        if style.strip().lower() not in _NO_STYLE:
            entry.speaker += f"{STYLE_MARK}{style.strip()}"


def _some(entries: Sequence[TranscriptEntry]) -> list[TranscriptEntry]:
    """The first row, then rows of other speakers and languages or, if there are none, rows from the
    middle and the end."""
    numbered = reversed(list(enumerate(entries)))
    first = {(entry.speaker, entry.language): place for place, entry in numbered}
    spread = (len(entries) // 2, len(entries) - 1, *range(len(entries)))
    places = dict.fromkeys((*sorted(first.values()), *spread))
    return [entries[place] for place in sorted(list(places)[:_ROWS_SHOWN])]
