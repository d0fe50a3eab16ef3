"""Reads folders without a transcript file: recordings with texts beside them, or what to do next.

    a.wav, a.txt, sub/b.flac, sub/b.txt     each recording with a text file of the same name

Recordings without any text, and recordings that are longer than a clip, are answered with the line
that cuts them.
"""

import shlex
from collections.abc import Sequence
from pathlib import Path

from train.dataset.entries import (
    DEFAULT_SPEAKER,
    EXTENSIONS,
    DatasetError,
    TranscriptEntry,
)
from train.dataset.transcript_lines import read_text
from xtts.foreign_sound import FOREIGN_EXTENSIONS

# Of recordings whose headers are read before a folder counts as one of long recordings.
_MOST_LOOKED_AT = 16
_MOST_NAMED = 3


def read_pairs(folder: Path, language: str, longest_seconds: float) -> list[TranscriptEntry]:
    """An entry for each recording in `folder` and below, in the order of their names; one without
    a text file has an empty text, for which it will be refused by name.

    Raises DatasetError, with the line that cuts, when there is no text or no clip among them.
    """
    recordings = recordings_in(folder)
    if not recordings:
        raise DatasetError(
            f"{folder} has neither metadata.csv nor metadata_train.csv, nor any recording. Write "
            "metadata.csv with a row `id|text` for each clip wavs/id.wav, or name another "
            "DATASET_FORMAT."
        )
    texts = [_text_beside(path) for path in recordings]
    if not any(text is not None for text in texts):
        raise DatasetError(
            f"{folder} holds {_counted(recordings)} and no transcript: neither metadata.csv nor "
            "metadata_train.csv nor a .txt file beside a recording. Cut them into clips, which "
            f"writes metadata.csv too: {cut_line(recordings, folder, language)}"
        )
    some = [path for path, text in zip(recordings, texts, strict=True) if text is not None]
    if all(_is_long(path, longest_seconds) for path in some[:_MOST_LOOKED_AT]):
        beside = some[0].with_suffix(".txt") if len(some) == 1 else None
        raise DatasetError(
            f"{folder} holds {_counted(some)} with text, longer than the {longest_seconds:g} s of "
            f"a clip. Cut {'it' if len(some) == 1 else 'each'} into clips first: "
            f"{cut_line(some[:1], folder, language, beside or some[0].with_suffix('.txt'))}"
        )
    return [
        TranscriptEntry(
            path.relative_to(folder).as_posix(), path, text or "", DEFAULT_SPEAKER, language
        )
        for path, text in zip(recordings, texts, strict=True)
    ]


def recordings_in(folder: Path) -> list[Path]:
    """Every recording in a folder and below, by name; hidden ones are left alone."""
    known = (*EXTENSIONS, *FOREIGN_EXTENSIONS)
    return sorted(
        path
        for path in folder.rglob("*")
        if path.suffix.lower() in known
        and path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )


def cut_line(
    recordings: Sequence[Path], folder: Path, language: str, text: Path | None = None
) -> str:
    """The command that makes a dataset of these recordings: at most a few are named, of more the
    shell's pattern for the first one's folder."""
    names = [shlex.quote(str(path)) for path in recordings]
    if len(names) > _MOST_NAMED:
        first = recordings[0]
        names = [f"{shlex.quote(str(first.parent))}/*{first.suffix}"]
    aim = folder.with_name(f"{folder.name or 'recording'}-clips")
    words = ["python -m train cut", *names, "--to", shlex.quote(str(aim))]
    words += ["--text", shlex.quote(str(text))] if text else []
    return " ".join([*words, *(["--language", language] if language != "en" else [])])


def _text_beside(recording: Path) -> str | None:
    """The text of the file with the same name, on one line; None without such a file."""
    for path in (recording.with_suffix(".txt"), recording.with_name(f"{recording.name}.txt")):
        if path.is_file():
            return " ".join(read_text(path).split())
    return None


def _is_long(path: Path, longest_seconds: float) -> bool:
    from xtts.audio import AudioError, facts  # imports torch, which a table does without

    try:
        return facts(path).seconds > longest_seconds
    except AudioError:
        return False


def _counted(recordings: Sequence[Path]) -> str:
    return "1 recording" if len(recordings) == 1 else f"{len(recordings)} recordings"
