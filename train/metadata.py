"""Transcript files of every known form -> entries; nothing is decoded here.

    ljspeech   metadata.csv            id|text[|normalised]            clips in wavs/
    coqui      metadata.csv, or        path|text[|speaker[|language]]  with or without a header line
               metadata_train.csv and metadata_val.csv
    NAME       any formatter of `TTS.tts.datasets.formatters`, by its name

A fault of form refuses the whole file, with the line and what was seen: a row that is misread would
teach wrong words in silence. Faults of a single clip are judged later, by `train.dataset`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from xtts.errors import SotaqueError

EXTENSIONS = (".wav", ".flac", ".ogg", ".mp3")
DEFAULT_SPEAKER = "speaker"
_HEADER = ("audio_file", "text")
_MOST_FAULTS_SHOWN = 10


class DatasetError(SotaqueError):
    """A dataset that cannot be used; the sentence names file, line and what is allowed."""


@dataclass(frozen=True)
class Entry:
    """One row of a transcript. path: where its recording is expected; name: how reports call it.

    validation: True or False where the dataset itself says so, else None.
    """

    name: str
    path: Path
    text: str
    speaker: str
    language: str
    validation: bool | None = None


def read_entries(folder: Path, form: str, language: str) -> list[Entry]:
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
        entries = _by_formatter(folder, form, language)
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


def _ljspeech(folder: Path, language: str) -> list[Entry]:
    def entry(cells: list[str]) -> Entry:
        identity, text = cells[0], cells[-1] or cells[1]
        path = _found(folder / "wavs", identity)
        return Entry(identity, path, text, DEFAULT_SPEAKER, language)

    return _rows(folder / "metadata.csv", (2, 3), "id|text or id|text|normalised text", entry)


def _coqui(folder: Path, language: str) -> list[Entry]:
    def entry_of(validation: bool | None) -> Callable[[list[str]], Entry]:
        def entry(cells: list[str]) -> Entry:
            name, text, speaker, spoken, *_ = [*cells, "", ""]
            return Entry(
                name, folder / name, text, speaker or DEFAULT_SPEAKER, spoken or language,
                validation,
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


def _by_formatter(folder: Path, name: str, language: str) -> list[Entry]:
    """Coqui's own readers. They are looked up by name, and say nothing of what they skip."""
    from TTS.tts.datasets import formatters

    formatter = getattr(formatters, name, None)
    if not callable(formatter) or name.startswith("_"):
        raise DatasetError(
            f"DATASET_FORMAT={name} is unknown. It is auto, ljspeech, coqui, or a formatter of TTS "
            "such as vctk, mailabs, common_voice."
        )
    meta = next((n for n in ("metadata.csv", "metadata.txt") if (folder / n).is_file()), "")
    try:
        rows = formatter(str(folder), meta)
    except Exception as error:
        raise DatasetError(
            f"DATASET_FORMAT={name} cannot read {folder} ({type(error).__name__}: {error}). "
            "Check that the folder is laid out as that format asks."
        ) from error
    return [
        Entry(
            _name_of(Path(row["audio_file"]), folder), Path(row["audio_file"]), row["text"],
            row.get("speaker_name") or DEFAULT_SPEAKER, row.get("language") or language,
        )
        for row in rows
    ]  # fmt: skip


def _rows(
    path: Path, widths: tuple[int, ...], allowed: str, entry: Callable[[list[str]], Entry]
) -> list[Entry]:
    faults: list[str] = []
    entries: list[Entry] = []
    for number, line in _lines(path):
        cells = [cell.strip() for cell in line.split("|")]
        if number == 1 and tuple(cells[:2]) == _HEADER:
            continue
        if len(cells) not in widths:
            faults.append(f"line {number} has {len(cells)} fields: {_short(line)!r}")
        elif fault := _unsafe(cells[0]):
            faults.append(f"line {number} names {cells[0]!r}: {fault}")
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
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            yield number, line


def _unsafe(name: str) -> str | None:
    """Why a name may not be opened, if so: it must stay inside the dataset."""
    path = PurePosixPath(name.replace("\\", "/"))
    if not name:
        return "the name of the clip is empty"
    if path.is_absolute() or (len(name) > 1 and name[1] == ":"):
        return "paths are relative to the dataset, not absolute"
    if ".." in path.parts:
        return "paths stay inside the dataset, without `..`"
    return None


def _found(folder: Path, identity: str) -> Path:
    """The recording of an id: as it stands, else with the first extension that is there."""
    named = folder / identity
    if named.suffix.lower() in EXTENSIONS:
        return named
    candidates = (folder / f"{identity}{extension}" for extension in EXTENSIONS)
    return next((path for path in candidates if path.is_file()), folder / f"{identity}.wav")


def _refuse_twins(entries: list[Entry], folder: Path) -> None:
    seen: set[str] = set()
    for entry in entries:
        if entry.name in seen:
            raise DatasetError(
                f"The transcript in {folder} names {entry.name!r} twice. Which of the two texts is "
                "right? Keep one row."
            )
        seen.add(entry.name)


def _name_of(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.name


def _short(line: str) -> str:
    return line if len(line) <= 60 else line[:60] + "…"
