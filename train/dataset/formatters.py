"""Reads a dataset by a formatter of Coqui's `TTS.tts.datasets.formatters`, by its name.

They skip rows silently, do not check paths, and write `.wav` even if a corpus is published as FLAC
or MP3. Their rows are therefore checked like ours.
"""

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from train.dataset.entries import DEFAULT_SPEAKER, DatasetError, TranscriptEntry, find_recording, why_unsafe
from xtts.text.languages import tag_of

# File names to try for a formatter that requires the name of its transcript.
_TRANSCRIPTS = (
    "metadata.csv",
    "metadata.txt",
    "transcripts.txt",
    "transcript.txt",
    "train.tsv",
    "validated.tsv",
)


def read_by_formatter(folder: Path, name: str, language: str) -> list[TranscriptEntry]:
    """The rows that Coqui's formatter `name` finds in `folder`.

    Raises DatasetError for an unknown name, a missing transcript, a failing formatter, and a
    recording outside the folder.
    """
    from TTS.tts.datasets import formatters

    formatter: Any = getattr(formatters, name, None)
    is_coquis = inspect.isfunction(formatter) and formatter.__module__ == formatters.__name__
    if not is_coquis or name.startswith(("_", "register_")):
        raise DatasetError(
            f"DATASET_FORMAT={name} is unknown. It is auto, ljspeech, coqui, columns, pairs, "
            "folders, or a formatter of TTS such as vctk, mailabs, common_voice."
        )
    transcript = next((name for name in _TRANSCRIPTS if (folder / name).is_file()), None)
    parameter = list(inspect.signature(formatter).parameters.values())[1]
    if transcript is None and parameter.default is inspect.Parameter.empty:
        raise DatasetError(
            f"DATASET_FORMAT={name} reads a transcript, and {folder} has none. Call it "
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
            "Check that the folder has the layout of that format."
        ) from error
    # Without a transcript, rows come in the order of the file system, which differs by machine.
    return entries if transcript else sorted(entries, key=lambda entry: entry.name)


def _entry_of(row: Mapping[str, str], folder: Path, language: str) -> TranscriptEntry:
    path = Path(row["audio_file"])
    # Formatters join names with the folder; an absolute name in the transcript replaces it.
    name = path.relative_to(folder).as_posix() if path.is_relative_to(folder) else str(path)
    if fault := why_unsafe(name):
        raise DatasetError(f"The transcript in {folder} names {name!r}: {fault}.")
    # A corpus may be published with another extension than its formatter assumes.
    return TranscriptEntry(
        name,
        find_recording([folder], name),
        row["text"].strip(),
        row.get("speaker_name") or DEFAULT_SPEAKER,
        tag_of(row.get("language") or "") or language,
    )
