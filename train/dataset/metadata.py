"""Turns the rows of a transcript into clips: file, text, speaker, language and style of each.

`metadata_train.csv` comes before `metadata.csv`; both may also be .tsv or .jsonl. Validation clips
come from the file whose name has `val`, `valid`, `validation`, `eval` or `dev` instead of `train`,
or behind `metadata_`. A header line names the columns: a `style` column makes the speaker
`anna:whisper`. Without a header, a row is file|text. What is not certain is read by the extra that
declares LAYOUTS (`machine.extras`), if it is installed; otherwise rows are LJSpeech's
id|text|normalised text or Coqui's path|text|speaker|language.

A malformed row refuses the whole file, with its line and content: a misread row would silently
teach wrong words. `train.dataset.dataset` checks single clips later.
"""

import itertools
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from machine import extras
from machine.text import counted, listed, plain_name
from train.dataset.entries import (
    DEFAULT_SPEAKER,
    RECORDING_FOLDERS,
    DatasetError,
    TranscriptEntry,
    candidates,
    located,
    names_recording,
    names_sound,
    recording_folders,
    relative_name,
    rowless_note,
    short,
    unread_note,
    unsafe,
    validation_of,
)
from train.dataset.tables import (
    SPLITS,
    Columns,
    Table,
    is_label,
    is_sentence,
    language_of,
    most_common_width,
    named,
    read_table,
)
from train.dataset.tags import decoded, spoken, tags_note
from xtts.text.languages import tag_of
from xtts.text.markup import STYLE_MARK

# The files that each named format reads.
FILES: Mapping[str, Sequence[str]] = {
    "ljspeech": ("metadata.csv",),
    "coqui": ("metadata_train.csv", "metadata.csv"),
    "columns": ("metadata.csv", "metadata.tsv"),
}
# Formats that only the extra reads.
_FORMS_OF_EXTRAS = ("pairs", "folders")
_OWN_ENDINGS = (".csv", ".tsv", ".jsonl")
# Whether such a file is a transcript depends on its content.
_UNCERTAIN_ENDINGS = (".list", ".txt", ".json")
HEADER_ADVICE = (
    "Write a header line that names the columns, such as file_name|speaker|text; columns with "
    "other names are ignored."
)
_NO_EXTRA = "extras/layouts, which reads other layouts, is not installed."
_LOOKED_UP = 40
# Names of speakers repeat more often than texts do.
_CLIPS_FOR_A_NAME = 3
_MOST_FAULTS_SHOWN = 10
_ROWS_SHOWN = 3
_NO_STYLE = frozenset({"", "neutral", "normal", "default", "none"})
_CALLED = {",": "a comma", ";": "a semicolon", "\t": "a tab"}
# Placeholders that programs write for a missing name.
NO_NAMES = frozenset(("", "nan", "none", "null", "n/a", "na", "<na>", "unknown"))


@dataclass
class Transcript:
    """The rows of a dataset, in the order of its files.

    source: the files and their columns, for the table of rows; notes: how they were read.
    """

    entries: list[TranscriptEntry]
    source: str
    notes: list[str] = field(default_factory=list)


def read_entries(folder: Path, form: str, language: str) -> list[TranscriptEntry]:
    """The rows of `read_transcript`."""
    return read_transcript(folder, form, language).entries


def read_transcript(folder: Path, form: str, language: str) -> Transcript:
    """Every row of the dataset in `folder`, in the order of its files.

    Raises DatasetError for a missing folder or file, malformed rows, ambiguous columns, names that
    leave the folder, and duplicate names.
    """
    is_extended = bool(extras.offered("LAYOUTS"))
    if not folder.is_dir() and not (is_extended and folder.is_file()):
        raise DatasetError(no_folder(folder))
    if form in _FORMS_OF_EXTRAS or not folder.is_dir():
        transcript = None
    elif form == "auto" or form in FILES:
        transcript = _of_own_table(folder, form, language, certain=is_extended)
    else:
        from train.dataset.formatters import read_by_formatter

        transcript = Transcript(read_by_formatter(folder, form, language), f"{folder}, read by TTS's {form}")
    if transcript is None:
        if not is_extended:
            raise DatasetError(
                f"DATASET_FORMAT={form}: {folder} has neither metadata.csv nor "
                f"metadata_train.csv nor metadata.jsonl, and {_NO_EXTRA}"
            )
        transcript = extras.modules("LAYOUTS")[0].read(folder, form, language)
    if not transcript.entries:
        raise DatasetError(f"The transcript in {folder} holds no row. Write one row for each clip.")
    _clean_texts(transcript)
    _unify_spellings(transcript)
    _refuse_repeated(transcript.entries, folder)
    _refuse_misread(transcript.entries, folder)
    return transcript


def no_folder(path: Path) -> str:
    """The message for a DATASET_DIR that is not a folder."""
    return f"DATASET_DIR={path} is not a folder. Name the folder that holds metadata.csv and wavs/."


# Files


def _own_file(folder: Path, form: str, here: Sequence[Path]) -> Path | None:
    """The file with the training clips; for a named format it may be missing."""
    if names := FILES.get(form):
        return folder / next((name for name in names if (folder / name).is_file()), names[0])
    for stem in ("metadata_train", "metadata"):
        for ending in _OWN_ENDINGS:
            for path in here:
                if (path.stem.lower(), path.suffix.lower()) == (stem, ending):
                    return path
    return None


def _of_own_table(folder: Path, form: str, language: str, *, certain: bool) -> Transcript | None:
    """The rows of metadata.csv and the like; None without such a file. certain: also None for
    whatever has another possible reading."""
    here = candidates(list(folder.iterdir()))
    train = _own_file(folder, form, here)
    if train is None:
        return None
    files = [train, *filter(None, [validation_of(folder, train)])]
    unread = [path for path in here if path not in files]
    uncertain = [path for path in unread if path.suffix.lower() in _UNCERTAIN_ENDINGS]
    if certain and uncertain:
        return None
    tables = [replace(read_table(path), validation=path != train) for path in files]
    if train.suffix.lower() == ".jsonl" and certain and not (tables[0].rows and named(tables[0].rows[0])):
        return None
    columns = _own_columns(tables, folder, certain=certain)
    if columns is None:
        return None
    return entries_of(folder, tables, columns, [path for path in unread if path not in uncertain], language)


def _own_columns(tables: Sequence[Table], folder: Path, *, certain: bool) -> dict[Path, Columns] | None:
    """The columns of each file, from its header or by their order; None as in `_of_own_table`."""
    columns_of = headed(tables)
    plain = [table for table in tables if table.rows and table.path not in columns_of]
    widths = {table.path: most_common_width(table.rows) for table in plain}
    for width in set(widths.values()):
        alike = [table for table in plain if widths[table.path] == width]
        rows = [row for table in alike for row in table.rows if len(row) == width]
        if width > 1 and certain and not (width == 2 and _are_clips(alike, rows, folder)):
            return None
        columns = _by_order(rows, width, alike[0].path)
        columns_of |= dict.fromkeys((table.path for table in alike), columns)
    return columns_of


def headed(tables: Iterable[Table]) -> dict[Path, Columns]:
    """The columns of each table with a header line."""
    return {table.path: columns for table in tables if table.rows and (columns := named(table.rows[0]))}


def _are_clips(alike: Sequence[Table], rows: Sequence[Sequence[str]], folder: Path) -> bool:
    """Whether rows of two fields are certainly file|text: the recordings are there, and the texts
    neither name recordings nor repeat as speakers do."""
    folders = recording_folders(alike[0].path, folder)
    firsts = [next(row for row in table.rows if len(row) == len(rows[0])) for table in alike]
    names = [row[0] for row in (*firsts, *rows[:: max(1, len(rows) // _LOOKED_UP)])]
    texts = {row[1] for row in rows}
    return (
        len(texts) * _CLIPS_FOR_A_NAME > len(rows)
        and any(texts)
        and not any(map(names_sound, texts))
        and all(name and names_recording(name, folders) for name in names)
    )


def _by_order(rows: Sequence[Sequence[str]], width: int, path: Path) -> Columns:
    """The columns of LJSpeech and Coqui. Raises DatasetError for others."""
    if width < 3:
        if width == 2 and len(rows) > 1 and len({row[-1] for row in rows}) * _CLIPS_FOR_A_NAME <= len(rows):
            raise DatasetError(f"{path}: its texts repeat as speakers do, and {_NO_EXTRA} {HEADER_ADVICE}")
        return Columns({"path": 0, "text": 1}, 2, by_rows=True)
    roles = ["path", "text", "speaker", "language"][:width]
    columns = [[cell for cell in column if cell] for column in zip(*rows, strict=True)]
    sentences = [2 * sum(map(is_sentence, column)) > len(column) for column in columns]
    if width == 3 and sentences[1] and sentences[2]:
        roles = ["path", "written", "text"]
    elif (
        width > 4
        or not sentences[1]
        or not all(map(is_label, itertools.chain(*columns[2:])))
        or all(cell.casefold() in SPLITS for cell in columns[2])
    ):
        raise DatasetError(
            f"{path} has {width} columns whose meaning is not clear, such as "
            f"{short('|'.join(rows[0]))!r}, and {_NO_EXTRA} {HEADER_ADVICE}"
        )
    return Columns({role: at for at, role in enumerate(roles)}, width, by_rows=True)


def _clean_texts(transcript: Transcript) -> None:
    """Decodes HTML entities, and leaves out the tags of other tools and the names of speakers."""
    pairs = [decoded(entry.text) for entry in transcript.entries]
    tags = list[str]()
    for entry, text in zip(transcript.entries, spoken((text for text, _ in pairs), tags), strict=True):
        entry.text = text
    entities = dict.fromkeys(entity for _, encoded in pairs for entity in encoded)
    if entities:
        shown = listed(list(entities))
        transcript.notes.append(f"HTML entities in the texts are read as characters: {shown}.")
    if tags:
        transcript.notes.append(tags_note("Transcripts", tags))


def _unify_spellings(transcript: Transcript) -> None:
    """Gives each speaker and style one spelling, the first: names that differ only in case, spaces
    or the composition of accents are one name everywhere else, too."""
    spellings, other = dict[str, str](), dict[str, str]()
    for entry in transcript.entries:
        parts = list[str]()
        for part in entry.speaker.split(STYLE_MARK):
            composed = " ".join(unicodedata.normalize("NFC", part).split())
            parts.append(spellings.setdefault(plain_name(part), composed))
            if composed != parts[-1]:
                other.setdefault(composed, parts[-1])
        entry.speaker = STYLE_MARK.join(parts)
    if other:
        pairs = listed([f"{spelling} = {name}" for spelling, name in other.items()])
        transcript.notes.append(f"Speakers whose names differ only in case are one: {pairs}.")


def folders_note(entries: Sequence[TranscriptEntry], remedy: str) -> list[str]:
    """A note if the recordings of a single speaker are in several folders."""
    if any(entry.speaker != DEFAULT_SPEAKER for entry in entries):
        return []
    folders = map(Path, {str(entry.path).rpartition(os.sep)[0] for entry in entries})
    people = {folder for folder in folders if folder.name.casefold() not in (*SPLITS, *RECORDING_FOLDERS)}
    if len(people) < 2:
        return []
    return [f"The {len(people)} folders are read as one speaker. If each folder is another person, {remedy}."]


def _refuse_repeated(entries: Sequence[TranscriptEntry], folder: Path) -> None:
    for name, count in Counter(entry.name for entry in entries).items():
        if count > 1:
            raise DatasetError(
                f"The transcript in {folder} names {name!r} twice. Keep the row with the right text."
            )


def _refuse_misread(entries: Sequence[TranscriptEntry], folder: Path) -> None:
    """Refuses rows whose columns seem to be confused: a sentence as the speaker, or one text for
    all clips."""
    spoken_to = Counter(entry.speaker for entry in entries)
    if sentence := next((speaker for speaker in spoken_to if is_sentence(speaker)), None):
        text = next(entry.text for entry in entries if entry.speaker == sentence)
        raise DatasetError(
            f"The speakers in {folder} are sentences, such as {short(sentence)!r} with the "
            f"text {short(text)!r}. If the columns are file|speaker|text, write that as a "
            "header line; if they are file|text|speaker, correct the speakers."
        )
    if len(entries) > 1 and len(texts := {entry.text for entry in entries}) == 1 and (text := texts.pop()):
        raise DatasetError(
            f"All {len(entries)} clips of {folder} have the same text, {short(text)!r}. If that "
            "is a speaker, write a header line that names the columns, such as file|speaker|text. "
            "If it is the text, add clips with other texts."
        )


# Rows of a file


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
    some = " and ".join(names) if len(names) < 3 else f"{len(names)} files, such as {names[0]}"
    transcript, in_rows = Transcript([], f"{folder}: {some}"), set[str]()
    held_out = any(table.validation for table in tables)
    filled = [table for table in tables if table.rows]
    for table in filled:
        read = _of_table(folder, table, columns[table.path], language, in_rows)
        for entry in read.entries if held_out else ():
            entry.validation = table.validation
        transcript.entries += read.entries
        transcript.notes += [note for note in read.notes if note not in transcript.notes]
    if held_out:
        _leave_out_repeated(transcript, [path.name for path in files])
    corpus_speakers(transcript.entries)
    transcript.notes += folders_note(transcript.entries, "add a column with the name of each clip's speaker")
    transcript.notes += filter(None, (unread_note(folder, unread, files), rowless_note(folder, in_rows)))
    transcript.source += f" ({columns[filled[0].path].spelled()})" if filled else ""
    return transcript


def _leave_out_repeated(transcript: Transcript, names: Sequence[str]) -> None:
    """Removes training rows that repeat the recording and text of a validation row. A validation
    file that holds all training clips is not used. names: of the files, the validation set last."""
    held_out = {(entry.path, entry.text) for entry in transcript.entries if entry.validation}
    train = [entry for entry in transcript.entries if not entry.validation]
    left = [entry for entry in train if (entry.path, entry.text) not in held_out]
    held = [entry for entry in transcript.entries if entry.validation]
    if held and (left or not train):
        note = f"{names[-1]} is the validation set: {counted(len(held), 'clip')}."
        if twice := len(train) - len(left):
            note += f" {counted(twice, 'clip')} of {names[0]}, in both files, left out of training."
        transcript.entries = [*left, *held]
    else:
        recordings = {(entry.path, entry.text) for entry in train}
        transcript.entries = [
            *train,
            *(entry for entry in held if (entry.path, entry.text) not in recordings),
        ]
        for entry in transcript.entries:
            entry.validation = None
        has = f"all clips of {names[0]}" if held else "no clip"
        note = f"{names[-1]} holds {has}, so it is not used as the validation set."
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


def _of_table(folder: Path, table: Table, columns: Columns, language: str, in_rows: set[str]) -> Transcript:
    """The rows of one file with known columns. Adds the recordings of all rows to `in_rows`."""
    path, transcript = table.path, Transcript([], "", _unused(table, columns))
    home, skipped = path.parent, 0 if columns.by_rows else 1
    rows = list(zip(table.lines, table.rows, strict=True))[skipped:]
    places = recording_folders(path, folder)
    prefix = "" if home == folder else home.relative_to(folder).as_posix()
    if "split" in columns.places:
        in_rows |= {
            str(located(relative_name(_cells_of(row, columns)["path"], home), places)[1]) for _, row in rows
        }
        rows = _in_use(rows, columns.places["split"], path, transcript.notes)
    faults, styles, moved = list[str](), list[str](), list[str]()
    for number, row in rows:
        cells = _cells_of(row, columns)
        given = relative_name(cells["path"], home)
        name, recording = located(given, places)
        speaker = cells.get("speaker", "")
        if fault := _fault(row, columns, table.delimiter, name, speaker):
            faults.append(f"line {number} {fault}")
            continue
        in_rows.add(str(recording))
        transcript.entries.append(
            TranscriptEntry(
                f"{prefix}/{name}" if prefix else name,
                recording,
                cells.get("text") or cells.get("written", ""),
                DEFAULT_SPEAKER if speaker.casefold() in NO_NAMES else speaker,
                _language(cells.get("language", ""), language),
                SPLITS.get(cells.get("split", "").casefold()),
            )
        )
        styles.append(cells.get("style", ""))
        if name != given:
            moved.append(cells["path"])
    if faults:
        shown, more = "; ".join(faults[:_MOST_FAULTS_SHOWN]), len(faults) - _MOST_FAULTS_SHOWN
        more_faults = f"; and {more} more" if more > 0 else ""
        raise DatasetError(f"{path}: {shown}{more_faults}. {_rule(table, columns)}")
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


def _unused(table: Table, columns: Columns) -> list[str]:
    """A note for each column or group of columns that is not read."""
    name, rows, notes = table.path.name, table.rows, list[str]()
    if not columns.by_rows:
        header, rows = rows[0], rows[1:]
        used = columns.places.values()
        others = [title for at, title in enumerate(header) if title and at not in used]
        if others:
            notes.append(f"{name}: the columns {', '.join(others)} are ignored.")
    for at, kind in columns.ignored.items():
        labels = sorted({row[at] for row in rows if at < len(row) and row[at]})
        advice = (
            " To keep each as a style, name the column `style` in a header line, such as "
            "file_name|text|style."
        )
        notes.append(
            f"{name}: column {at + 1} holds {kind} ({', '.join(labels[:_ROWS_SHOWN])}), not "
            f"speakers, and is ignored.{advice if kind == 'emotions' else ''}"
        )
    return notes


def _in_use(
    rows: list[tuple[int, tuple[str, ...]]], place: int, path: Path, notes: list[str]
) -> list[tuple[int, tuple[str, ...]]]:
    """The numbered training and validation rows, by the column of splits."""
    splits = [row[place].casefold() if place < len(row) else "" for _, row in rows]
    if False not in map(SPLITS.get, splits):
        return rows  # a column of other words, or a file of one split
    used = [row for row, split in zip(rows, splits, strict=True) if SPLITS.get(split, False) is not None]
    held_out = sum(1 for split in splits if SPLITS.get(split))
    marked = [f"{counted(held_out, 'clip')} for validation"] if held_out else []
    if tests := len(rows) - len(used):
        are = "is" if tests == 1 else "are"
        marked.append(f"{counted(tests, 'clip')} for tests, which {are} not read")
    if marked:
        notes.append(f"{path.name}: its split column marks {' and '.join(marked)}.")
    return used


def _cells_of(row: Sequence[str], columns: Columns) -> dict[str, str]:
    """The fields of a row by their roles."""
    cells = {role: row[at] for role, at in columns.places.items() if at < len(row)}
    if len(row) > columns.width:
        cells["language"] = row[-1]
    return {"path": "", **cells}


def _fault(row: Sequence[str], columns: Columns, delimiter: str, name: str, speaker: str) -> str:
    """The fault of a row; "" if there is none. A row may omit the speaker, the language or the
    normalised text at its end, and may add its language."""
    count, width = len(row), columns.width
    if count != width:
        missing = set(range(count, width))
        has_language = (
            count == width + 1 and width > 2 and "language" not in columns.places and language_of(row[-1])
        )
        omits = count > 1 and missing and missing <= columns.optional
        if not (omits or has_language):
            line = (delimiter or "|").join(row)
            return f"has {count} fields instead of {width}: {short(line)!r}"
    if unsafe_because := unsafe(name):
        return f"names {short(name)!r}: {unsafe_because}"
    if columns.by_rows and speaker.casefold() not in NO_NAMES and is_sentence(speaker):
        return f"has a sentence as its speaker: {short(speaker)!r}"
    return ""


def _rule(table: Table, columns: Columns) -> str:
    called = _CALLED.get(table.delimiter, f"a {table.delimiter!r}")
    example = f'"Yes{table.delimiter or ","} of course."'
    quoted = f"A text with {called} must be in quotation marks: {example}"
    return f"A row is {columns.spelled()}. {quoted}"


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
