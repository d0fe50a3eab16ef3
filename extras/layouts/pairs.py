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

from machine import commands
from machine.text import enumeration, quantity
from train.dataset.entries import (
    DEFAULT_SPEAKER,
    LONGEST_CLIP_SECONDS,
    DatasetError,
    TranscriptEntry,
    files_below,
    names_sound,
    read_text,
)
from train.dataset.rows import corpus_speakers

# The number of headers to read before a folder counts as one of long recordings.
_MOST_LOOKED_AT = 16
_MOST_NAMED = 3
_TEXTS_IN_OTHER_FORMS = frozenset(
    ".txt .json .srt .vtt .textgrid .cleaned .xlsx .ods .parquet .arrow .xml .eaf .md .docx "
    ".yaml .yml".split()
)
# Kaldi's files, without an ending.
_KALDI = frozenset(("text", "wav.scp", "utt2spk"))
# LibriTTS writes both forms of each text; Fish Speech and Montreal's aligner write .lab.
_TEXT_ENDINGS = (".normalized.txt", ".txt", ".lab", ".original.txt")
# An HTK label: start and end in units of 100 ns, then the phoneme.
_TIMED = re.compile(r"\s*\d+(\.\d+)?\s+\d+(\.\d+)?\s+\S+\s*$")
# A folder that holds the folders of all speakers, such as wav48 of VCTK.
_HOLDS_ALL = re.compile(r"(wav|audio|clip|recording|sound|data|dataset)s?(_?files)?(?![a-z])", re.I)


def read_pairs(folder: Path, language: str, tables: Sequence[Path] = ()) -> list[TranscriptEntry]:
    """An entry for each recording in `folder` and below, sorted by name. Hidden files are ignored.

    A recording without a text file gets an empty text and is rejected by name later.

    tables: files that name no recording, for the message.

    Raises DatasetError, with the command that cuts, if no recording has text or all are too long.
    """
    recordings = [path for path in files_below(folder) if names_sound(path.name)]
    if not recordings:
        raise DatasetError(
            f"{folder} has neither metadata.csv nor metadata_train.csv, nor any recording. "
            f"{_other_tables(tables)}Write metadata.csv with a row `id|text` for each clip "
            "wavs/id.wav, or name another DATASET_FORMAT."
        )
    texts = _texts(folder, recordings)
    if not texts:
        folders = len({path.parent for path in recordings})
        together = f" (all {folders} folders together; if each is another person, cut them one by one)"
        others = _other_tables(tables) or _other_texts(folder)
        raise DatasetError(
            f"{folder} holds {quantity(len(recordings), 'recording')} and no transcript: neither "
            "metadata.csv nor metadata_train.csv, nor a .txt file named like a recording. "
            f"{others}{'Otherwise cut' if others else 'Cut'} them into clips, which writes "
            "metadata.csv too: "
            f"{cut_line(recordings, folder, language)}{together if folders > 1 else ''}"
        )
    words = {path: _words(text) for path, text in texts.items()}
    some = list(texts)
    if all(_is_long(path) for path in some[:_MOST_LOOKED_AT]):
        raise DatasetError(
            f"{folder} holds {quantity(len(some), 'recording')} with text, longer than the "
            f"{LONGEST_CLIP_SECONDS:g} s of a clip. Cut {'it' if len(some) == 1 else 'each'} into "
            f"clips first: {cut_line(some[:1], folder, language, texts[some[0]])}"
        )
    pairs = [
        TranscriptEntry(
            path.relative_to(folder).as_posix(), path, words.get(path, ""), DEFAULT_SPEAKER, language
        )
        for path in recordings
    ]
    corpus_speakers(pairs)
    return pairs


def _other_tables(tables: Sequence[Path]) -> str:
    if not tables:
        return ""
    names = enumeration([path.name for path in tables], _MOST_NAMED)
    return (
        f"No column of {names} names these recordings: if it is their transcript, write a "
        "header line such as file_name|text, with the names of the files. "
    )


def _other_texts(folder: Path) -> str:
    """A sentence about files that may hold the texts in an unsupported format."""
    files = [
        path.relative_to(folder).as_posix()
        for path in files_below(folder)
        if path.suffix.lower() in _TEXTS_IN_OTHER_FORMS or path.name in _KALDI
    ]
    if not files:
        return ""
    return (
        f"Not read: {enumeration(files, _MOST_NAMED)}. If the texts are in there, write them into "
        "metadata.csv, with a row file|text or file|speaker|text for each clip. "
    )


def _words(text: Path) -> str:
    """The text of a recording, on one line. Raises DatasetError for labels with times."""
    written = read_text(text)
    if all(_TIMED.match(line) for line in written.splitlines() if line.strip()) and written.strip():
        raise DatasetError(
            f"{text} holds labels with times, not the text of a clip. Write the spoken words, or "
            f"cut the recording by the labels: {commands.program('train cut')} RECORDING --text "
            f"{shlex.quote(str(text))} --to DIR"
        )
    return " ".join(written.split())


def by_folder(pairs: Sequence[TranscriptEntry]) -> list[str]:
    """Makes the first folder of each pair its speaker. Returns their styles: the second folder, or
    ""."""
    folders = [Path(pair.name).parts[:-1] for pair in pairs]
    firsts = {parts[0] if parts else "" for parts in folders}
    if len(firsts) == 1 and _HOLDS_ALL.match(firsts.pop()):
        folders = [parts[1:] for parts in folders]
    for pair, parts in zip(pairs, folders, strict=True):
        pair.speaker = parts[0] if parts else DEFAULT_SPEAKER
    return [parts[1] if len(parts) > 1 else "" for parts in folders]


def cut_line(recordings: Sequence[Path], folder: Path, language: str, text: Path | None = None) -> str:
    """The `train cut` command for these recordings: by name if they are few, else by shell patterns
    for their folders."""
    names = [shlex.quote(str(path)) for path in recordings]
    if len(names) > _MOST_NAMED:
        names = sorted(
            {
                "/".join(
                    (
                        shlex.quote(str(folder)),
                        *("*" for _ in path.relative_to(folder).parts[:-1]),
                        f"*{path.suffix}",
                    )
                )
                for path in recordings
            }
        )
    aim = folder.with_name(f"{folder.name or 'recording'}-clips")
    words = [commands.program("train cut"), *names, "--to", shlex.quote(str(aim))]
    words += ["--text", shlex.quote(str(text))] if text else []
    return " ".join([*words, *(["--language", language] if language != "en" else [])])


def _texts(folder: Path, recordings: Sequence[Path]) -> dict[Path, Path]:
    """The text file of each recording that has one: beside it or, as in VCTK, in a separate folder
    (txt/p225/a.txt for wav48/p225/a.wav), if exactly one text and one recording have that name."""
    by_name = defaultdict[str, list[Path]](list)
    for path in files_below(folder):
        if path.suffix.lower() in (".txt", ".lab"):
            by_name[path.stem].append(path)
    names, texts = Counter(path.stem for path in recordings), dict[Path, Path]()
    for path in recordings:
        near = [path.with_suffix(ending) for ending in (*_TEXT_ENDINGS, f"{path.suffix}.txt")]
        paths = [candidate for candidate in near if candidate.is_file()]
        if not paths and names[path.stem] == 1 and len(by_name[path.stem]) == 1:
            paths = by_name[path.stem]
        if paths:
            texts[path] = paths[0]
    return texts


def _is_long(path: Path) -> bool:
    # They import torch, which tables do not need.
    from xtts.audio import AudioError, facts

    try:
        return facts(path).seconds > LONGEST_CLIP_SECONDS
    except AudioError:
        return False
