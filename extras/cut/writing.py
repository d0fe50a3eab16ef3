"""Writes a cut: `wavs/`, `account.csv`, `report.html`, `clips.jsonl`, `metadata.csv`, `cut.json`.

The files are written in this order. The same input gives the same bytes, also after a kill: each
file is complete or absent, and existing ones are written again. `report.html` shows the clips with
their waveforms, worst first, to play and to correct. `clips.jsonl` is the same for programs: one
clip per line, in the order of the recordings.
"""

import json
import math
import shutil
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from extras.common.csv_table import csv_bytes
from extras.cut.cutter import CutResult
from extras.cut.manuscript import Manuscript
from extras.cut.planning import IN_A_CLIP, SILENCE
from extras.cut.recordings import CuttingError, read_spans
from machine.storage.files import (
    make_folder,
    read_json,
    remove_stale,
    replace_file,
    require_space,
    write_json,
)
from xtts import encoding

FINISHED_FILE, WORK_FOLDER = "cut.json", ".cutting"
_SCHEMA = 1
_TEMPLATE = Path(__file__).with_name("report.html")
_MAX_WAVEFORM_POINTS = 120
_MAX_LEFT_OUT_ROWS = 500
# The pace of a clip may differ from the median by a factor of 1.5; otherwise the clip is marked.
_MAX_LOG_PACE_RATIO = math.log(1.5)


class LeftOutRow(TypedDict):
    """A part of a recording that is in no clip, as the page shows it."""

    recording: str
    start: float
    seconds: float
    reason: str
    text: str


@dataclass(frozen=True)
class WrittenClip:
    """A clip in the folder.

    Attributes:
        start: Seconds in its recording.
        levels: The level of each 10 ms in dB.
        sha256: The hash of its file.
    """

    name: str
    recording: str
    start: float
    seconds: float
    text: str
    levels: Sequence[float]
    sha256: str


def claim(folder: Path, fingerprint: str) -> bool:
    """Marks the folder as this cut's; returns False if it already contains exactly this cut.

    Raises CuttingError for a folder with other content.
    """
    finished, work = folder / FINISHED_FILE, folder / WORK_FOLDER
    if finished.is_file():
        if read_json(finished).get("fingerprint") == fingerprint:
            return False
        raise CuttingError(
            f"{folder} contains the cut of other recordings or another text. Name another folder "
            "with --to, or remove this one."
        )
    names = [path.name for path in folder.iterdir() if path != work] if folder.is_dir() else []
    if names and not work.is_dir():
        raise CuttingError(
            f"{folder} is not empty ({', '.join(sorted(names)[:3])}). Name a new folder with --to."
        )
    make_folder(work)
    return True


def abandon(folder: Path) -> None:
    """Removes the files of `claim`, and the folder if it is then empty."""
    shutil.rmtree(folder / WORK_FOLDER, ignore_errors=True)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def write(folder: Path, result: CutResult, text: Manuscript | None, fingerprint: str, speech_by: str) -> None:
    """Writes a cut and removes the work folder. Raises DiskFull (exit 74) and WriteError."""
    unheard = [text.sentences[number] for number in result.unheard] if text else []
    clips = _write_clips(folder, result)
    write_account(folder, result)
    write_report(folder, clips, result, unheard, fingerprint)
    # One `id|text` per line, as `train.dataset.metadata` reads it.
    rows = "".join(f"{clip.name}|{as_field(clip.text)}\n" for clip in clips)
    replace_file(folder / "metadata.csv", lambda file: file.write(rows.encode()))
    write_json(
        folder / FINISHED_FILE,
        {
            "schema": _SCHEMA,
            "fingerprint": fingerprint,
            "speech_by": speech_by,
            "recordings": [
                {
                    "name": cut.recording.name,
                    "seconds": round(cut.recording.seconds, 6),
                    "clips": len(cut.clips),
                    "seconds_by_reason": cut.seconds_by_reason(),
                }
                for cut in result.recordings
            ],
            "unheard_sentences": unheard,
        },
    )
    shutil.rmtree(folder / WORK_FOLDER, ignore_errors=True)


def as_field(text: str) -> str:
    """A text as a field of metadata.csv: in one line, and without the separator `|`."""
    return " ".join(text.replace("|", ",").split())


def _write_clips(folder: Path, result: CutResult) -> list[WrittenClip]:
    """Writes every clip at its recording's rate."""
    wavs = folder / "wavs"
    make_folder(wavs)
    remove_stale(wavs)
    seconds = sum(clip.last - clip.first for cut in result.recordings for clip in cut.clips) / 100
    max_rate = max(cut.recording.rate for cut in result.recordings)
    require_space(folder, int(seconds * max_rate * 2), "the clips")
    written = list[WrittenClip]()
    for cut in result.recordings:
        rate = cut.recording.rate
        for index, samples in read_spans(cut.recording, cut.spans()):
            clip = cut.clips[index]
            name = f"{cut.recording.name}-{index + 1:04d}"
            file = encoding.write_wav(wavs / f"{name}.wav", samples, rate)
            levels = cut.profile.level_db[clip.first : clip.last]
            written.append(
                WrittenClip(
                    name,
                    cut.recording.name,
                    clip.first / 100,
                    len(samples) / rate,
                    clip.text,
                    [round(float(level)) for level in levels],
                    file.sha256,
                )
            )
    return written


def write_account(folder: Path, result: CutResult) -> None:
    """Writes every row of every account, in seconds with six decimals."""
    rows = []
    for cut in result.recordings:
        for row in cut.rows:
            start, end = row.first / cut.recording.rate, row.last / cut.recording.rate
            times = (f"{start:.6f}", f"{end:.6f}", f"{end - start:.6f}")
            rows.append((cut.recording.name, *times, row.reason, row.text))
    content = csv_bytes(("recording", "start", "end", "seconds", "reason", "text"), rows)
    replace_file(folder / "account.csv", lambda file: file.write(content))


def write_report(
    folder: Path, clips: Sequence[WrittenClip], result: CutResult, unheard: Sequence[str], fingerprint: str
) -> None:
    """Writes `clips.jsonl` and `report.html` next to `wavs/`, which the page plays. fingerprint: of
    the cut; the browser stores corrections under it."""
    median_pace = statistics.median([_pace_of(clip) for clip in clips if clip.text] or [0.0])
    rows = [_page_data(clip, median_pace) for clip in clips]
    more = ({"recording": clip.recording, "sha256": clip.sha256} for clip in clips)
    lines = [json.dumps({**row, **extra}, ensure_ascii=False) + "\n" for row, extra in zip(rows, more)]
    replace_file(folder / "clips.jsonl", lambda file: file.write("".join(lines).encode()))
    data = json.dumps(
        {
            "key": fingerprint,
            "recordings": [
                {
                    "name": cut.recording.name,
                    "seconds": cut.recording.seconds,
                    "clips": len(cut.clips),
                    "totals": cut.seconds_by_reason(),
                }
                for cut in result.recordings
            ],
            "unheard": list(unheard),
            "clips": rows,
            "left": _left_out_rows(result),
        },
        ensure_ascii=False,
    )
    # A text may contain </script>.
    page = _TEMPLATE.read_text(encoding="utf-8").replace("@DATA@", data.replace("<", "\\u003c"))
    replace_file(folder / "report.html", lambda file: file.write(page.encode()))


def _left_out_rows(result: CutResult) -> list[LeftOutRow]:
    """The longest parts that are in no clip."""
    rows: list[LeftOutRow] = [
        {
            "recording": cut.recording.name,
            "start": round(row.first / cut.recording.rate, 2),
            "seconds": round((row.last - row.first) / cut.recording.rate, 2),
            "reason": row.reason,
            "text": row.text,
        }
        for cut in result.recordings
        for row in cut.rows
        if row.reason not in (IN_A_CLIP, SILENCE)
    ]
    return sorted(rows, key=lambda row: -row["seconds"])[:_MAX_LEFT_OUT_ROWS]


def _page_data(clip: WrittenClip, median_pace: float) -> dict[str, object]:
    """The data of a clip for the page: the deviation of its pace from the median, with a note
    if it is large, and the waveform as at most `_MAX_WAVEFORM_POINTS` peaks."""
    pace, deviation, note = _pace_of(clip), 0.0, ""
    if clip.text and median_pace > 0:
        deviation = abs(math.log(pace / median_pace))
    if deviation >= _MAX_LOG_PACE_RATIO:
        word = "fast" if pace > median_pace else "slow"
        note = f"{word}, {pace:.0f} characters a second where others have {median_pace:.0f}"
    step = max(math.ceil(len(clip.levels) / _MAX_WAVEFORM_POINTS), 1)
    return {
        "name": clip.name,
        "start": clip.start,
        "seconds": clip.seconds,
        "text": clip.text,
        "levels": [max(clip.levels[first : first + step]) for first in range(0, len(clip.levels), step)],
        "worst": round(deviation, 3),
        "why": note,
    }


def _pace_of(clip: WrittenClip) -> float:
    """Characters per second, without the silence at both ends."""
    return max(len(clip.text), 1) / max(clip.seconds - 0.3, 0.1)
