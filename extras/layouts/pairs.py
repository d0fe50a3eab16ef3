"""Reads layouts without a table: a text file for each recording.

    a.wav, a.txt, sub/b.flac, sub/b.txt     each recording with a text file of the same name
    a.normalized.txt, a.lab                 the same, as LibriTTS and Fish Speech name them
    txt/anna/a.txt, wavs/anna/a.wav         texts in a separate folder, as in VCTK

For recordings without text or longer than a clip, the error names the command that cuts them.
"""

import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from machine import commands
from machine.text import enumeration, quantity
from train.dataset.entries import (
    DEFAULT_SPEAKER,
    MAX_CLIP_SECONDS,
    DatasetError,
    TranscriptEntry,
    files_below,
    names_sound,
    read_text,
)
from train.dataset.rows import corpus_speakers

# The number of headers to read before a folder counts as one of long recordings.
_MAX_HEADERS_READ = 16
_MAX_FILES_NAMED = 3
_ENDINGS_OF_OTHER_TEXTS = frozenset(
    ".txt .json .srt .vtt .textgrid .cleaned .xlsx .ods .parquet .arrow .xml .eaf .md .docx "
    ".yaml .yml".split()
)
# Kaldi's files, without an ending.
_KALDI_FILES = frozenset(("text", "wav.scp", "utt2spk"))
# LibriTTS writes both forms of each text; Fish Speech and Montreal's aligner write .lab.
_TEXT_ENDINGS = (".normalized.txt", ".txt", ".lab", ".original.txt")
# An HTK label: start and end in units of 100 ns, then the phoneme.
_TIMED_LABEL = re.compile(r"\s*\d+(\.\d+)?\s+\d+(\.\d+)?\s+\S+\s*$")
# A folder that holds the folders of all speakers, such as wav48 of VCTK.
_CONTAINER = re.compile(r"(wav|audio|clip|recording|sound|data|dataset)s?(_?files)?(?![a-z])", re.I)


def read_pairs(folder: Path, language: str, tables: Sequence[Path] = ()) -> list[TranscriptEntry]:
    """An entry for each recording in `folder` and below, sorted by name. Hidden files are ignored.

    A recording without a text file gets an empty text and is rejected by name later.

    tables: files that name no recording, for the message.

    Raises DatasetError, with the command that cuts, if no recording has text or all are too long.
    """
    recordings = [path for path in files_below(folder) if names_sound(path.name)]
    if not recordings:
        raise _no_recordings(folder, tables)
    text_files = _text_files(folder, recordings)
    if not text_files:
        raise _no_transcript(folder, recordings, language, tables)
    texts = {path: _read_words(text_file) for path, text_file in text_files.items()}
    with_text = list(text_files)
    if all(_is_longer_than_clip(path) for path in with_text[:_MAX_HEADERS_READ]):
        raise _too_long(folder, with_text, language, text_files[with_text[0]])
    pairs = [
        TranscriptEntry(
            path.relative_to(folder).as_posix(), path, texts.get(path, ""), DEFAULT_SPEAKER, language
        )
        for path in recordings
    ]
    corpus_speakers(pairs)
    return pairs


def _no_recordings(folder: Path, tables: Sequence[Path]) -> DatasetError:
    return DatasetError(
        f"{folder} has neither metadata.csv nor metadata_train.csv, nor any recording. "
        f"{_other_tables(tables)}Write metadata.csv with a row `id|text` for each clip "
        "wavs/id.wav, or name another DATASET_FORMAT."
    )


def _no_transcript(
    folder: Path, recordings: Sequence[Path], language: str, tables: Sequence[Path]
) -> DatasetError:
    num_folders = len({path.parent for path in recordings})
    scope = f" (all {num_folders} folders together; if each is another person, cut them one by one)"
    others = _other_tables(tables) or _other_texts(folder)
    return DatasetError(
        f"{folder} holds {quantity(len(recordings), 'recording')} and no transcript: neither "
        "metadata.csv nor metadata_train.csv, nor a .txt file named like a recording. "
        f"{others}{'Otherwise cut' if others else 'Cut'} them into clips, which writes "
        "metadata.csv too: "
        f"{cut_command(recordings, folder, language)}{scope if num_folders > 1 else ''}"
    )


def _too_long(folder: Path, recordings: Sequence[Path], language: str, text_file: Path) -> DatasetError:
    """text_file: of the first recording."""
    checked = f" the first {_MAX_HEADERS_READ} of them" if len(recordings) > _MAX_HEADERS_READ else ""
    return DatasetError(
        f"{folder} holds {quantity(len(recordings), 'recording')} with text,{checked} longer than the "
        f"{MAX_CLIP_SECONDS:g} s of a clip. Cut {'it' if len(recordings) == 1 else 'each'} into "
        f"clips first: {cut_command(recordings[:1], folder, language, text_file)}"
    )


def _other_tables(tables: Sequence[Path]) -> str:
    if not tables:
        return ""
    names = enumeration([path.name for path in tables], _MAX_FILES_NAMED)
    return (
        f"No column of {names} names these recordings: if it is their transcript, write a "
        "header line such as file_name|text, with the names of the files. "
    )


def _other_texts(folder: Path) -> str:
    """A sentence about files that may hold the texts in an unsupported format."""
    files = [
        path.relative_to(folder).as_posix()
        for path in files_below(folder)
        if path.suffix.lower() in _ENDINGS_OF_OTHER_TEXTS or path.name in _KALDI_FILES
    ]
    if not files:
        return ""
    return (
        f"Not read: {enumeration(files, _MAX_FILES_NAMED)}. If the texts are in there, write them into "
        "metadata.csv, with a row file|text or file|speaker|text for each clip. "
    )


def _read_words(text_file: Path) -> str:
    """The text of a recording, on one line. Raises DatasetError for labels with times."""
    text = read_text(text_file)
    if all(_TIMED_LABEL.match(line) for line in text.splitlines() if line.strip()) and text.strip():
        raise DatasetError(
            f"{text_file} holds labels with times, not the text of a clip. Write the spoken words, or "
            f"cut the recording by the labels: {commands.program('train cut')} RECORDING --text "
            f"{shlex.quote(str(text_file))} --to DIR"
        )
    return " ".join(text.split())


class SpeakerStyle(NamedTuple):
    """The speaker of a recording, and the style; "" without one."""

    speaker: str
    style: str


def speakers_by_folder(pairs: Sequence[TranscriptEntry]) -> list[SpeakerStyle]:
    """For each pair, its first folder as the speaker and the second as the style."""
    folders = [Path(pair.name).parts[:-1] for pair in pairs]
    first_folders = {parts[0] if parts else "" for parts in folders}
    if len(first_folders) == 1 and _CONTAINER.match(first_folders.pop()):
        folders = [parts[1:] for parts in folders]
    return [
        SpeakerStyle(parts[0] if parts else DEFAULT_SPEAKER, parts[1] if len(parts) > 1 else "")
        for parts in folders
    ]


def cut_command(
    recordings: Sequence[Path], folder: Path, language: str, text_file: Path | None = None
) -> str:
    """The `train cut` command for these recordings: by name if they are few, else by shell patterns
    for their folders."""
    names = [shlex.quote(str(path)) for path in recordings]
    if len(names) > _MAX_FILES_NAMED:
        names = sorted({_shell_pattern(folder, path) for path in recordings})
    target = folder.with_name(f"{folder.name or 'recording'}-clips")
    words = [commands.program("train cut"), *names, "--to", shlex.quote(str(target))]
    words += ["--text", shlex.quote(str(text_file))] if text_file else []
    return " ".join([*words, *(["--language", language] if language != "en" else [])])


def _shell_pattern(folder: Path, path: Path) -> str:
    wildcards = ["*"] * len(path.relative_to(folder).parts[:-1])
    return "/".join([shlex.quote(str(folder)), *wildcards, f"*{path.suffix}"])


def _text_files(folder: Path, recordings: Sequence[Path]) -> dict[Path, Path]:
    """The text file of each recording that has one: beside it or, as in VCTK, in a separate folder
    (txt/p225/a.txt for wav48/p225/a.wav), if exactly one text and one recording have that name."""
    by_name = defaultdict[str, list[Path]](list)
    for path in files_below(folder):
        if path.suffix.lower() in (".txt", ".lab"):
            by_name[path.stem].append(path)
    name_counts, text_files = Counter(path.stem for path in recordings), dict[Path, Path]()
    for path in recordings:
        candidates = [path.with_suffix(ending) for ending in (*_TEXT_ENDINGS, f"{path.suffix}.txt")]
        paths = [candidate for candidate in candidates if candidate.is_file()]
        if not paths and name_counts[path.stem] == 1 and len(by_name[path.stem]) == 1:
            paths = by_name[path.stem]
        if paths:
            text_files[path] = paths[0]
    return text_files


def _is_longer_than_clip(path: Path) -> bool:
    # Imported here because xtts.audio imports torch, which reading tables does not need.
    from xtts.audio import AudioError, facts

    try:
        return facts(path).seconds > MAX_CLIP_SECONDS
    except AudioError:
        return False
