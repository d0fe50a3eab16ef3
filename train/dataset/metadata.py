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
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path

from machine import extras
from machine.text import counted, listed, plain_name, table
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
from train.dataset.tables import SPLITS, Columns, Table, most_common_width, named, read_table
from train.dataset.tags import decoded, spoken, tags_note
from xtts.sound_endings import ending_of
from xtts.text.languages import NAMES, code_of, is_code, tag_of
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
ENDINGS = (".csv", ".tsv", ".list", ".txt", ".jsonl", ".json")
# Whether such a file is a transcript depends on its content.
_UNCERTAIN_ENDINGS = (".list", ".txt", ".json")
# Files that `train cut`, `train check` and `train extend` write into a folder of clips.
_OURS = frozenset({"account.csv", "clips.jsonl", "cut.json", "inspection.csv", "normalization.txt"})
_VALIDATION_WORDS = ("val", "valid", "validation", "eval", "dev")
TRAIN_WORD = re.compile(r"(?<![a-z])train(?:ing)?(?![a-z])", re.I)
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
# MeloTTS's codes: its KR is Korean; in ISO 639-1 it is Kanuri.
_LANGUAGE_ALIASES = {"kr": "ko", "jp": "ja", "sp": "es", "zh_mix_en": "zh"}
_BY_NAME = {name.lower(): code for code, name in NAMES.items()}
_LOCALE = re.compile(r"([a-z]{2,3})([-_][a-z]{4})?([-_]([a-z]{2}|\d{3}))?")
MOST_LABEL_WORDS, MOST_LABEL_CHARACTERS = 3, 40
SENTENCE_ENDS = tuple(".!?…。！？")
NUMBER = re.compile(r"[-+]?\d+")


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
                (
                    f"{shown_path(entry.path, folder)}{missing}",
                    short(entry.text),
                    entry.speaker,
                    entry.language,
                )
            )
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
    is_extended = bool(extras.offered("LAYOUTS"))
    if not folder.is_dir() and not (is_extended and folder.is_file()):
        raise DatasetError(no_folder(folder))
    if form in _FORMS_OF_EXTRAS or not folder.is_dir():
        found = None
    elif form == "auto" or form in FILES:
        found = _of_own_table(folder, form, language, certain=is_extended)
    else:
        from train.dataset.formatters import read_by_formatter

        found = Transcript(read_by_formatter(folder, form, language), f"{folder}, read by TTS's {form}")
    if found is None:
        if not is_extended:
            raise DatasetError(
                f"DATASET_FORMAT={form}: {folder} has neither metadata.csv nor "
                f"metadata_train.csv nor metadata.jsonl, and {_NO_EXTRA}"
            )
        found = extras.modules("LAYOUTS")[0].read(folder, form, language)
    if not found.entries:
        raise DatasetError(f"The transcript in {folder} holds no row. Write one row for each clip.")
    _clean_texts(found)
    _unify_spellings(found)
    _refuse_repeated(found.entries, folder)
    _refuse_misread(found.entries, folder)
    return found


def no_folder(path: Path) -> str:
    """The message for a DATASET_DIR that is not a folder."""
    return f"DATASET_DIR={path} is not a folder. Name the folder that holds metadata.csv and wavs/."


# Files


def candidates(files: Sequence[Path]) -> list[Path]:
    """The files that could be transcripts of several recordings."""
    beside = set(texts_beside(files))
    return sorted(
        path
        for path in files
        if path.suffix.lower() in ENDINGS
        and path.name not in _OURS
        and not path.name.startswith(".")
        and path not in beside
        and path.is_file()
    )


def texts_beside(files: Sequence[Path]) -> Iterator[Path]:
    """The texts of single recordings: a.txt for a.wav."""
    texts = [path for path in files if path.suffix.lower() in (".txt", ".lab")]
    sounds = {path.with_suffix("") for path in files if names_sound(path.name)} if texts else set()
    for path in texts:
        plain = path.with_suffix("")
        if plain in sounds or plain.with_suffix("") in sounds:
            yield path


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


def validation_of(folder: Path, train: Path) -> Path | None:
    """The file with the validation clips for a file of training clips."""
    name = train.relative_to(folder).as_posix()
    for word in _VALIDATION_WORDS:
        if TRAIN_WORD.search(name):
            paths = [folder / TRAIN_WORD.sub(word, name)]
        else:
            paths = [train.with_name(f"{stem}{train.suffix}") for stem in (f"{train.stem}_{word}", word)]
        if found := next(filter(Path.is_file, paths), None):
            return found
    return None


def unread_note(folder: Path, unread: Iterable[Path], read: Iterable[Path] = ()) -> str:
    """A line that lists the unread files that look like transcripts; "" if there are none."""
    names, those = (
        listed([path.relative_to(folder).as_posix() for path in paths]) for paths in (unread, read)
    )
    if not names:
        return ""
    return f"Not read: {names}." + (f" The clips are those of {those}." if those else "")


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
    return entries_of(folder, tables, columns, [one for one in unread if one not in uncertain], language)


def _own_columns(tables: Sequence[Table], folder: Path, *, certain: bool) -> dict[Path, Columns] | None:
    """The columns of each file, from its header or by their order; None as in `_of_own_table`."""
    found = headed(tables)
    plain = [one for one in tables if one.rows and one.path not in found]
    widths = {one.path: most_common_width(one.rows) for one in plain}
    for width in set(widths.values()):
        alike = [one for one in plain if widths[one.path] == width]
        rows = [row for one in alike for row in one.rows if len(row) == width]
        if width > 1 and certain and not (width == 2 and _are_clips(alike, rows, folder)):
            return None
        columns = _by_order(rows, width, alike[0].path)
        found |= dict.fromkeys((one.path for one in alike), columns)
    return found


def headed(tables: Iterable[Table]) -> dict[Path, Columns]:
    """The columns of each table with a header line."""
    return {one.path: columns for one in tables if one.rows and (columns := named(one.rows[0]))}


def _are_clips(alike: Sequence[Table], rows: Sequence[Sequence[str]], folder: Path) -> bool:
    """Whether rows of two fields are certainly file|text: the recordings are there, and the texts
    neither name recordings nor repeat as speakers do."""
    folders = recording_folders(alike[0].path, folder)
    firsts = [next(row for row in one.rows if len(row) == len(rows[0])) for one in alike]
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
        or all(one.casefold() in SPLITS for one in columns[2])
    ):
        raise DatasetError(
            f"{path} has {width} columns whose meaning is not clear, such as "
            f"{short('|'.join(rows[0]))!r}, and {_NO_EXTRA} {HEADER_ADVICE}"
        )
    return Columns({role: at for at, role in enumerate(roles)}, width, by_rows=True)


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


def folders_note(entries: Sequence[TranscriptEntry], remedy: str) -> list[str]:
    """A note if the recordings of a single speaker are in several folders."""
    if any(entry.speaker != DEFAULT_SPEAKER for entry in entries):
        return []
    folders = map(Path, {str(entry.path).rpartition(os.sep)[0] for entry in entries})
    people = {one for one in folders if one.name.casefold() not in (*SPLITS, *RECORDING_FOLDERS)}
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
    if sentence := next((one for one in spoken_to if is_sentence(one)), None):
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
    files = [one.path for one in tables]
    names = [path.relative_to(folder).as_posix() for path in files]
    some = " and ".join(names) if len(names) < 3 else f"{len(names)} files, such as {names[0]}"
    found, in_rows = Transcript([], f"{folder}: {some}"), set[str]()
    held_out = any(one.validation for one in tables)
    filled = [one for one in tables if one.rows]
    for one in filled:
        read = _of_table(folder, one, columns[one.path], language, in_rows)
        for entry in read.entries if held_out else ():
            entry.validation = one.validation
        found.entries += read.entries
        found.notes += [note for note in read.notes if note not in found.notes]
    if held_out:
        _leave_out_repeated(found, [path.name for path in files])
    corpus_speakers(found.entries)
    found.notes += folders_note(found.entries, "add a column with the name of each clip's speaker")
    found.notes += filter(None, (unread_note(folder, unread, files), _rowless_note(folder, in_rows)))
    found.source += f" ({columns[filled[0].path].spelled()})" if filled else ""
    return found


def _leave_out_repeated(found: Transcript, names: Sequence[str]) -> None:
    """Removes training rows that repeat the recording and text of a validation row. A validation
    file that holds all training clips is not used. names: of the files, the validation set last."""
    held_out = {(one.path, one.text) for one in found.entries if one.validation}
    train = [one for one in found.entries if not one.validation]
    kept = [one for one in train if (one.path, one.text) not in held_out]
    held = [one for one in found.entries if one.validation]
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


def corpus_speakers(entries: Sequence[TranscriptEntry]) -> None:
    """Adds the speakers of LibriSpeech and LibriTTS, whose file names repeat their folders:
    84/121123/84_121123_000007_000001.wav is by speaker 84. Other rows stay unchanged."""
    speakers = list[str]()
    for one in entries:
        *_, speaker, chapter = ("", "", *one.path.parent.parts)
        repeated = rf"{re.escape(speaker)}[-_]{re.escape(chapter)}[-_]"
        if one.speaker != DEFAULT_SPEAKER or not re.match(repeated, one.path.name):
            return
        speakers.append(speaker)
    for one, speaker in zip(entries, speakers, strict=True):
        one.speaker = speaker


def _rowless_note(folder: Path, in_rows: Set[str]) -> str:
    """A note that names the recordings beside those of the rows that have no row; "" without any.
    A copy in another format has the row of the original."""
    by_folder, rowless = defaultdict[str, set[str]](set), list[str]()
    for path in in_rows:
        place, name = os.path.split(path)
        by_folder[place].add(name)
    for place, names in by_folder.items():
        try:
            there = {one.name for one in os.scandir(place) if one.is_file()}
        except OSError:  # the rows name a folder that does not exist
            continue
        if stems := {_without_ending(name) for name in names & there}:
            rowless += [
                shown_path(Path(place, name), folder)
                for name in there
                if _without_ending(name) not in stems and not name.startswith(".") and ending_of(name)
            ]
    if not rowless:
        return ""
    are = (
        "1 recording has no row and is"
        if len(rowless) == 1
        else (f"{len(rowless)} recordings have no row and are")
    )
    return f"{are} not used: {listed(sorted(rowless))}."


def _without_ending(name: str) -> str:
    return name.rpartition(".")[0] or name


def _of_table(folder: Path, table: Table, columns: Columns, language: str, in_rows: set[str]) -> Transcript:
    """The rows of one file with known columns. Adds the recordings of all rows to `in_rows`."""
    path, found = table.path, Transcript([], "", _unused(table, columns))
    home, skipped = path.parent, 0 if columns.by_rows else 1
    rows = list(zip(table.lines, table.rows, strict=True))[skipped:]
    places = recording_folders(path, folder)
    prefix = "" if home == folder else home.relative_to(folder).as_posix()
    if "split" in columns.places:
        in_rows |= {
            str(located(relative_name(_cells_of(row, columns)["path"], home), places)[1]) for _, row in rows
        }
        rows = _in_use(rows, columns.places["split"], path, found.notes)
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
        found.entries.append(
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
    add_styles(found, styles)
    return found


def _unused(table: Table, columns: Columns) -> list[str]:
    """A note for each column or group of columns that is not read."""
    name, rows, notes = table.path.name, table.rows, list[str]()
    if not columns.by_rows:
        header, rows = rows[0], rows[1:]
        used = columns.places.values()
        others = [one for at, one in enumerate(header) if one and at not in used]
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
    kept = [row for row, one in zip(rows, splits, strict=True) if SPLITS.get(one, False) is not None]
    held_out = sum(1 for one in splits if SPLITS.get(one))
    marked = [f"{counted(held_out, 'clip')} for validation"] if held_out else []
    if tests := len(rows) - len(kept):
        are = "is" if tests == 1 else "are"
        marked.append(f"{counted(tests, 'clip')} for tests, which {are} not read")
    if marked:
        notes.append(f"{path.name}: its split column marks {' and '.join(marked)}.")
    return kept


def _cells_of(row: Sequence[str], columns: Columns) -> dict[str, str]:
    """The fields of a row by their roles."""
    cells = {role: row[at] for role, at in columns.places.items() if at < len(row)}
    if len(row) > columns.width:
        cells["language"] = row[-1]
    return {"path": "", **cells}


def _fault(row: Sequence[str], columns: Columns, delimiter: str, name: str, speaker: str) -> str:
    """The fault of a row; "" if there is none. A row may omit the speaker, the language or the
    normalised text at its end, and may add its language."""
    count, wanted = len(row), columns.width
    if count != wanted:
        missing = set(range(count, wanted))
        has_language = (
            count == wanted + 1 and wanted > 2 and "language" not in columns.places and language_of(row[-1])
        )
        omits = count > 1 and missing and missing <= columns.optional
        if not (omits or has_language):
            line = (delimiter or "|").join(row)
            return f"has {count} fields instead of {wanted}: {short(line)!r}"
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


# What a field holds


def language_of(cell: str) -> str:
    """The ISO 639-1 code of the language that a field names by a code, a locale or in English;
    "" if it names none."""
    plain = cell.strip().lower()
    named = _LANGUAGE_ALIASES.get(plain) or _BY_NAME.get(plain)
    if named or not (locale := _LOCALE.fullmatch(plain)):
        return named or ""
    code = code_of(locale[1])
    # Three-letter codes count only for XTTS-v2's languages: `ben` is Bengali, but also a name.
    known = is_code(locale[1]) if len(locale[1]) == 2 else code in NAMES
    return code if known else ""


def is_label(cell: str) -> bool:
    """Whether a field is short enough for the name of a speaker or a style."""
    short = len(cell) <= MOST_LABEL_CHARACTERS and len(cell.split()) <= MOST_LABEL_WORDS
    named = any(map(str.isalpha, cell)) or NUMBER.fullmatch(cell) is not None
    return short and named and not cell.endswith(SENTENCE_ENDS)


def is_sentence(cell: str) -> bool:
    """Whether a field is a sentence: longer than a name, or at least two words with a full stop or
    another mark at the end."""
    words = len(cell.split())
    return (
        words > 2 * MOST_LABEL_WORDS
        or len(cell) > 2 * MOST_LABEL_CHARACTERS
        or (words > 1 and cell.endswith(SENTENCE_ENDS))
    )


def add_styles(found: Transcript, styles: Sequence[str]) -> None:
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
