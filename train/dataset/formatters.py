"""Dataset layouts of Coqui's formatters (TTS.tts.datasets.formatters), by name.

Called by `train.dataset.metadata` for a DATASET_FORMAT that is not ours. The readers say nothing of
what they skip, join paths without looking at them, and write `.wav` where a corpus is published as
FLAC or MP3: what they give is checked here as our own rows are.
"""

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from train.dataset.entries import DEFAULT_SPEAKER, EXTENSIONS, DatasetError, TranscriptEntry, unsafe

# Where a reader that asks for a transcript by name may find it.
_TRANSCRIPTS = (
    "metadata.csv", "metadata.txt", "transcripts.txt", "transcript.txt", "train.tsv",
    "validated.tsv",
)  # fmt: skip


def read_by_formatter(folder: Path, name: str, language: str) -> list[TranscriptEntry]:
    """The rows that TTS's reader `name` finds in `folder`.

    Raises DatasetError for an unknown name, a missing transcript, a reader that fails, and a
    recording outside the folder.
    """
    formatter = _formatter(name)
    transcript = next((name for name in _TRANSCRIPTS if (folder / name).is_file()), None)
    asked = list(inspect.signature(formatter).parameters.values())[1]
    if transcript is None and asked.default is inspect.Parameter.empty:
        raise DatasetError(
            f"DATASET_FORMAT={name} reads a transcript, and {folder} has none. It may be called "
            f"{', '.join(_TRANSCRIPTS)}."
        )
    try:
        rows = list(formatter(str(folder), *([transcript] if transcript else [])))
        entries = [_entry_of(row, folder, language) for row in rows]
    except DatasetError:
        raise
    except Exception as error:
        raise DatasetError(
            f"DATASET_FORMAT={name} cannot read {folder} ({type(error).__name__}: {error}). "
            "Check that the folder is laid out as that format asks."
        ) from error
    # Without a transcript the rows come as the file system lists them: not the same everywhere.
    return entries if transcript else sorted(entries, key=lambda entry: entry.name)


def _formatter(name: str) -> Any:
    from TTS.tts.datasets import formatters

    found: Any = getattr(formatters, name, None)
    own = inspect.isfunction(found) and found.__module__ == formatters.__name__
    if not own or name.startswith(("_", "register_")):
        raise DatasetError(
            f"DATASET_FORMAT={name} is unknown. It is auto, ljspeech, coqui, columns, pairs, or a "
            "formatter of TTS such as vctk, mailabs, common_voice."
        )
    return found


def _entry_of(row: Mapping[str, str], folder: Path, language: str) -> TranscriptEntry:
    path = Path(row["audio_file"])
    # Readers join with the folder; an absolute name in the transcript throws the folder away.
    name = path.relative_to(folder).as_posix() if path.is_relative_to(folder) else str(path)
    if fault := unsafe(name):
        raise DatasetError(f"The transcript in {folder} names {name!r}: {fault}.")
    return TranscriptEntry(
        name, _published(path), row["text"].strip(), row.get("speaker_name") or DEFAULT_SPEAKER,
        row.get("language") or language,
    )  # fmt: skip


def _published(path: Path) -> Path:
    """The recording, or the one of the same name with another extension."""
    spellings = (path, *(path.with_suffix(extension) for extension in EXTENSIONS))
    return next((spelling for spelling in spellings if spelling.is_file()), path)
