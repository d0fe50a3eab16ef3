"""Reads the transcript of a dataset: chooses its files, finds their columns and checks the whole.

`metadata_train.csv` comes before `metadata.csv`; both may also be .tsv or .jsonl. Validation clips
come from the file whose name has `val`, `valid`, `validation`, `eval` or `dev` instead of `train`,
or behind `metadata_`. A header line names the columns: a `style` column makes the speaker
`anna:whisper`. Without a header, a row is file|text. What is not certain is read by the extra that
declares LAYOUTS (`machine.extras`), if it is installed; otherwise rows are LJSpeech's
id|text|normalised text or Coqui's path|text|speaker|language.

`train.dataset.rows` turns the rows into clips; `train.dataset.dataset` checks single clips later.
"""

import itertools
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from machine import extras
from machine.text import enumeration, plain_name
from train.dataset.entries import (
    DatasetError,
    TranscriptEntry,
    candidates,
    names_recording,
    names_sound,
    recording_folders,
    short,
    validation_of,
)
from train.dataset.rows import Transcript, entries_of
from train.dataset.tables import (
    SPLITS,
    Columns,
    Table,
    columns_of_header,
    is_label,
    is_sentence,
    most_common_width,
    read_table,
)
from train.dataset.tags import decode_entities, strip_tags, tags_note
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
_MAX_LOOKED_UP = 40
# Names of speakers repeat more often than texts do.
_MIN_CLIPS_PER_NAME = 3


def read_entries(folder: Path, form: str, language: str) -> list[TranscriptEntry]:
    """The rows of `read_transcript`."""
    return read_transcript(folder, form, language).entries


def read_transcript(folder: Path, form: str, language: str) -> Transcript:
    """Every row of the dataset in `folder`, in the order of its files.

    Raises DatasetError for a missing folder or file, malformed rows, ambiguous columns, names that
    leave the folder, duplicate names, and files or folders that cannot be read.
    """
    try:
        return _read_transcript(folder, form, language)
    except OSError as error:
        path = error.filename or folder
        raise DatasetError(
            f"{path} cannot be read ({error.strerror}). Make it readable for the user that trains."
        ) from error


def _read_transcript(folder: Path, form: str, language: str) -> Transcript:
    is_extended = bool(extras.offers("LAYOUTS"))
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
    if (
        train.suffix.lower() == ".jsonl"
        and certain
        and not (tables[0].rows and columns_of_header(tables[0].rows[0]))
    ):
        return None
    columns = _own_columns(tables, folder, certain=certain)
    if columns is None:
        return None
    return entries_of(folder, tables, columns, [path for path in unread if path not in uncertain], language)


def _own_columns(tables: Sequence[Table], folder: Path, *, certain: bool) -> dict[Path, Columns] | None:
    """The columns of each file, from its header or by their order; None as in `_of_own_table`."""
    columns_of = columns_by_header(tables)
    without_header = [table for table in tables if table.rows and table.path not in columns_of]
    widths = {table.path: most_common_width(table.rows) for table in without_header}
    for width in set(widths.values()):
        alike = [table for table in without_header if widths[table.path] == width]
        rows = [row for table in alike for row in table.rows if len(row) == width]
        if width > 1 and certain and not (width == 2 and _are_clips(alike, rows, folder)):
            return None
        columns = _by_order(rows, width, alike[0].path)
        columns_of |= dict.fromkeys((table.path for table in alike), columns)
    return columns_of


def columns_by_header(tables: Iterable[Table]) -> dict[Path, Columns]:
    """The columns of each table with a header line."""
    return {
        table.path: columns
        for table in tables
        if table.rows and (columns := columns_of_header(table.rows[0]))
    }


def _are_clips(alike: Sequence[Table], rows: Sequence[Sequence[str]], folder: Path) -> bool:
    """Whether rows of two fields are certainly file|text: the recordings are there, and the texts
    neither name recordings nor repeat as speakers do."""
    folders = recording_folders(alike[0].path, folder)
    firsts = [next(row for row in table.rows if len(row) == len(rows[0])) for table in alike]
    names = [row[0] for row in (*firsts, *rows[:: max(1, len(rows) // _MAX_LOOKED_UP)])]
    texts = {row[1] for row in rows}
    return (
        len(texts) * _MIN_CLIPS_PER_NAME > len(rows)
        and any(texts)
        and not any(map(names_sound, texts))
        and all(name and names_recording(name, folders) for name in names)
    )


def _by_order(rows: Sequence[Sequence[str]], width: int, path: Path) -> Columns:
    """The columns of LJSpeech and Coqui. Raises DatasetError for others."""
    if width < 3:
        if width == 2 and len(rows) > 1 and len({row[-1] for row in rows}) * _MIN_CLIPS_PER_NAME <= len(rows):
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
    return Columns({role: index for index, role in enumerate(roles)}, width, by_rows=True)


def _clean_texts(transcript: Transcript) -> None:
    """Decodes HTML entities, and leaves out the tags of other tools and the names of speakers."""
    pairs = [decode_entities(entry.text) for entry in transcript.entries]
    tags = list[str]()
    for entry, text in zip(transcript.entries, strip_tags((text for text, _ in pairs), tags), strict=True):
        entry.text = text
    entities = dict.fromkeys(entity for _, encoded in pairs for entity in encoded)
    if entities:
        entity_list = enumeration(list(entities))
        transcript.notes.append(f"HTML entities in the texts are read as characters: {entity_list}.")
    if tags:
        transcript.notes.append(tags_note("Transcripts", tags))


def _unify_spellings(transcript: Transcript) -> None:
    """Gives each speaker and style one spelling, the first: names that differ only in case, spaces
    or the composition of accents are one name everywhere else, too."""
    spellings, variants = dict[str, str](), dict[str, str]()
    for entry in transcript.entries:
        parts = list[str]()
        for part in entry.speaker.split(STYLE_MARK):
            composed = " ".join(unicodedata.normalize("NFC", part).split())
            parts.append(spellings.setdefault(plain_name(part), composed))
            if composed != parts[-1]:
                variants.setdefault(composed, parts[-1])
        entry.speaker = STYLE_MARK.join(parts)
    if variants:
        pairs = enumeration([f"{spelling} = {name}" for spelling, name in variants.items()])
        transcript.notes.append(f"Speakers whose names differ only in case are one: {pairs}.")


def _refuse_repeated(entries: Sequence[TranscriptEntry], folder: Path) -> None:
    for name, count in Counter(entry.name for entry in entries).items():
        if count > 1:
            raise DatasetError(
                f"The transcript in {folder} names {name!r} twice. Keep the row with the right text."
            )


def _refuse_misread(entries: Sequence[TranscriptEntry], folder: Path) -> None:
    """Refuses rows whose columns seem to be confused: a sentence as the speaker, or one text for
    all clips."""
    speakers = dict.fromkeys(entry.speaker for entry in entries)
    if sentence := next((speaker for speaker in speakers if is_sentence(speaker)), None):
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
