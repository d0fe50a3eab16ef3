"""Reads transcript files: LJSpeech metadata.csv, Coqui's train and eval CSV.

    ljspeech   metadata.csv            id|text[|normalised]            clips in wavs/
    coqui      metadata.csv, or        path|text[|speaker[|language]]  with or without a header line
               metadata_train.csv and metadata_val.csv
    NAME       any formatter of `TTS.tts.datasets.formatters`, by its name

A fault of form refuses the whole file, with the line and what was seen: a row that is misread would
teach wrong words in silence. Faults of a single clip are judged later, by `train.dataset.dataset`.
"""

import io
import itertools
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from train.dataset.entries import DEFAULT_SPEAKER, EXTENSIONS, DatasetError, TranscriptEntry, unsafe

_HEADER = ("audio_file", "text", "speaker_name", "language")
_MOST_FAULTS_SHOWN = 10


def read_entries(folder: Path, form: str, language: str) -> list[TranscriptEntry]:
    """Every row of the dataset in `folder`, in the order of its files.

    Raises DatasetError for a missing folder or file, rows of the wrong form, names that leave the
    folder, and names that occur twice.
    """
    if not folder.is_dir():
        raise DatasetError(
            f"DATASET_DIR={folder} is no folder. Name the folder that holds metadata.csv and wavs/."
        )
    form = _form(folder) if form == "auto" else form
    if form == "ljspeech":
        entries = _ljspeech(folder, language)
    elif form == "coqui":
        entries = _coqui(folder, language)
    else:
        from train.dataset.formatters import read_by_formatter

        entries = read_by_formatter(folder, form, language)
    if not entries:
        raise DatasetError(f"The transcript in {folder} holds no row; write one row for each clip.")
    _refuse_twins(entries, folder)
    return entries


def _form(folder: Path) -> str:
    """What `auto` finds: two files are Coqui's; one is read by its first row."""
    if (folder / "metadata_train.csv").is_file():
        return "coqui"
    path = folder / "metadata.csv"
    if not path.is_file():
        raise DatasetError(
            f"{folder} has neither metadata.csv nor metadata_train.csv. Write metadata.csv with a "
            "row `id|text` for each clip wavs/id.wav, or name another DATASET_FORMAT."
        )
    first = next((line for _, line in _lines(path)), "")
    cell = first.split("|")[0]
    return "coqui" if cell == _HEADER[0] or cell.lower().endswith(EXTENSIONS) else "ljspeech"


def _ljspeech(folder: Path, language: str) -> list[TranscriptEntry]:
    def entry(cells: list[str]) -> TranscriptEntry:
        identity, text = cells[0], cells[-1] or cells[1]
        path = _found((folder / "wavs",), identity)
        return TranscriptEntry(identity, path, text, DEFAULT_SPEAKER, language)

    return _rows(folder / "metadata.csv", (2, 3), "id|text or id|text|normalised text", entry)


def _coqui(folder: Path, language: str) -> list[TranscriptEntry]:
    def entry_of(validation: bool | None) -> Callable[[list[str]], TranscriptEntry]:
        def entry(cells: list[str]) -> TranscriptEntry:
            name, text, speaker, spoken, *_ = [*cells, "", ""]
            return TranscriptEntry(
                name, _found((folder, folder / "wavs"), name), text, speaker or DEFAULT_SPEAKER,
                spoken or language, validation,
            )  # fmt: skip

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
    for row, (number, line) in enumerate(_lines(path)):
        cells = [cell.strip() for cell in line.split("|")]
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


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """(number from 1, line) of a text file; a byte-order mark and empty lines are skipped."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise DatasetError(f"{path} does not exist; write a row for each clip into it.") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise DatasetError(
            f"{path}, line {line}: byte {error.object[error.start]:#x} is no UTF-8. "
            "Save the file as UTF-8."
        ) from error
    # Not splitlines: it also breaks at characters that may stand inside a text, such as U+2028.
    for position, row in enumerate(io.StringIO(text, newline=None), start=1):
        if row.strip():
            yield position, row.rstrip("\n")


def _found(folders: Sequence[Path], name: str) -> Path:
    """The recording called `name`: as it stands, or with the first extension that is there.

    Also as Windows writes paths, and with its accents composed or not: an archive made on a Mac
    has them apart.
    """
    known = PurePosixPath(name).suffix.lower() in EXTENSIONS
    endings = ("",) if known else (*EXTENSIONS, "")
    plain = name.replace("\\", "/")
    composed, apart = (unicodedata.normalize(form, plain) for form in ("NFC", "NFD"))
    spellings = dict.fromkeys((name, plain, composed, apart))
    for folder, spelling, ending in itertools.product(folders, spellings, endings):
        path: Path = folder / f"{spelling}{ending}"
        if path.is_file():
            return path
    return folders[0] / f"{name}{'' if known else EXTENSIONS[0]}"


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
