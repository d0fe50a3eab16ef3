"""Writes a cut: `wavs/`, `account.csv`, `report.html`, `clips.jsonl`, `metadata.csv`, `cut.json`.

The last of them last. The same input gives the same bytes, also when a kill came between: each file
is whole or absent, and what is there already is written again.
"""

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from machine.storage.atomic import (
    make_folder,
    remove_stale,
    replace_file,
    require_space,
    write_json,
)
from machine.storage.csv_table import csv_bytes
from train.cutting.accounting import AccountRow, clip_frame
from train.cutting.alignment.manuscript import Manuscript
from train.cutting.cutter import CutRecording, CutResult
from train.cutting.errors import CuttingError
from train.cutting.sound import stretches
from xtts import wav

FINISHED, WORK = "cut.json", ".cutting"
_SCHEMA = 1


@dataclass(frozen=True)
class WrittenClip:
    """A clip in the folder. start: seconds in its recording; levels: dB each 10 ms; sha256: of its
    file."""

    name: str
    recording: str
    start: float
    seconds: float
    text: str
    levels: Sequence[float]
    sha256: str


def claim(folder: Path, fingerprint: str) -> bool:
    """Makes the folder ours; False where exactly this cut is in it already.

    Raises CuttingError for a folder that holds something else.
    """
    finished, work = folder / FINISHED, folder / WORK
    if finished.is_file():
        if json.loads(finished.read_text(encoding="utf-8")).get("fingerprint") == fingerprint:
            return False
        raise CuttingError(
            f"{folder} holds the cut of other recordings or another text. Name another folder "
            "with --to, or remove it."
        )
    others = [path.name for path in folder.iterdir() if path != work] if folder.is_dir() else []
    if others and not work.is_dir():
        raise CuttingError(
            f"{folder} is not empty ({', '.join(sorted(others)[:3])}). Name a new folder with --to."
        )
    make_folder(work)
    return True


def abandon(folder: Path) -> None:
    """Removes what `claim` made, and the folder where nothing else is in it."""
    shutil.rmtree(folder / WORK, ignore_errors=True)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def write_clips(folder: Path, result: CutResult) -> list[WrittenClip]:
    """Writes every clip at its recording's own rate. Raises DiskFull (exit 74) and WriteError."""
    wavs = folder / "wavs"
    make_folder(wavs)
    remove_stale(wavs)
    seconds = sum(clip.last - clip.first for one in result.recordings for clip in one.clips) / 100
    rate = max(one.recording.rate for one in result.recordings)
    require_space(folder, int(seconds * rate * 2), "the clips")
    written = list[WrittenClip]()
    for one in result.recordings:
        rate = one.recording.rate
        frames = one.recording.frames
        spans = [
            (clip_frame(clip.first, rate), min(clip_frame(clip.last, rate), frames))
            for clip in one.clips
        ]
        for place, samples in stretches(one.recording, spans):
            clip = one.clips[place]
            name = f"{one.recording.name}-{place + 1:04d}"
            file = wav.write(wavs / f"{name}.wav", samples, rate)
            levels = one.profile.level_db[clip.first : clip.last]
            written.append(
                WrittenClip(name, one.recording.name, clip.first / 100, len(samples) / rate,
                            clip.text, [round(float(level)) for level in levels], file.sha256)
            )  # fmt: skip
    return written


def write_metadata(folder: Path, clips: Sequence[WrittenClip]) -> None:
    """`id|text` a line, as `train.dataset.metadata` reads it."""
    rows = "".join(f"{clip.name}|{field(clip.text)}\n" for clip in clips)
    replace_file(folder / "metadata.csv", lambda file: file.write(rows.encode()))


def field(text: str) -> str:
    """A text as it may stand between the bars of metadata.csv."""
    return " ".join(text.replace("|", ",").split())


def write_account(folder: Path, result: CutResult) -> None:
    """Every row of every recording, in seconds to the sixth digit."""
    rows = [
        (one.recording.name, *_times(row, one.recording.rate), row.reason, row.text)
        for one in result.recordings for row in one.rows
    ]  # fmt: skip
    content = csv_bytes(("recording", "start", "end", "seconds", "reason", "text"), rows)
    replace_file(folder / "account.csv", lambda file: file.write(content))


def _times(row: AccountRow, rate: int) -> tuple[str, str, str]:
    start, end = row.first / rate, row.last / rate
    return f"{start:.6f}", f"{end:.6f}", f"{end - start:.6f}"


def write_finished(
    folder: Path, result: CutResult, text: Manuscript | None, fingerprint: str, detector: str
) -> None:
    """`cut.json`, which says that the folder is whole; then the work folder goes."""
    write_json(folder / FINISHED, {
        "schema": _SCHEMA, "fingerprint": fingerprint, "speech_by": detector,
        "recordings": [
            {"name": one.recording.name, "seconds": round(one.recording.seconds, 6),
             "clips": len(one.clips), "seconds_by_reason": totals(one)}
            for one in result.recordings
        ],
        "unheard_sentences": [text.sentences[number] for number in result.unheard] if text else [],
    })  # fmt: skip
    shutil.rmtree(folder / WORK, ignore_errors=True)


def totals(one: CutRecording) -> dict[str, float]:
    """Seconds by reason, most first; they sum to the length of the recording."""
    frames: dict[str, int] = {}
    for row in one.rows:
        frames[row.reason] = frames.get(row.reason, 0) + frames_of(row)
    ordered = sorted(frames.items(), key=lambda item: (-item[1], item[0]))
    return {reason: round(count / one.recording.rate, 6) for reason, count in ordered}


def frames_of(row: AccountRow) -> int:
    """How long a row is."""
    return row.last - row.first
