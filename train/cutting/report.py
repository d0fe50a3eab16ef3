"""`report.html`: the clips with waveforms, worst first, to hear and to correct; one file.

`clips.jsonl` is the same for programs: a clip a line, in the order of the recordings.
"""

import json
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from machine.storage.atomic import replace_file
from train.cutting.accounting import IN_A_CLIP, SILENCE
from train.cutting.cutter import CutResult
from train.cutting.dataset_folder import WrittenClip, frames_of, totals

_TEMPLATE = Path(__file__).parents[1] / "data/cutting/report.html"
_POINTS = 120
_MOST_ROWS = 500
# Twice as fast or slow as the median clip is worth a look.
_ODD_RATE = math.log(1.5)


def write_report(
    folder: Path, clips: Sequence[WrittenClip], result: CutResult, unheard: Sequence[str],
    fingerprint: str,
) -> None:  # fmt: skip
    """Writes both beside `wavs/`, from where it plays. fingerprint: of the cut; a browser keeps
    corrections under it. Raises DiskFull and WriteError."""
    found = {"key": fingerprint, **report_data(clips, result, unheard)}
    _write_lines(folder / "clips.jsonl", clips, found["clips"])
    data = json.dumps(found, ensure_ascii=False)
    # A text may say </script>.
    page = _TEMPLATE.read_text(encoding="utf-8").replace("@DATA@", data.replace("<", "\\u003c"))
    replace_file(folder / "report.html", lambda file: file.write(page.encode()))


def _write_lines(path: Path, clips: Sequence[WrittenClip], rows: Sequence[dict[str, Any]]) -> None:
    more = ({"recording": clip.recording, "sha256": clip.sha256} for clip in clips)
    lines = [json.dumps({**row, **one}, ensure_ascii=False) + "\n" for row, one in zip(rows, more)]
    replace_file(path, lambda file: file.write("".join(lines).encode()))


def report_data(
    clips: Sequence[WrittenClip], result: CutResult, unheard: Sequence[str]
) -> dict[str, Any]:
    """What the page shows."""
    usual = _usual_rate(clips)
    left: list[dict[str, Any]] = [
        {"recording": one.recording.name, "start": round(row.first / one.recording.rate, 2),
         "seconds": round(frames_of(row) / one.recording.rate, 2), "reason": row.reason,
         "text": row.text}
        for one in result.recordings
        for row in one.rows
        if row.reason not in (IN_A_CLIP, SILENCE)
    ]  # fmt: skip
    return {
        "recordings": [
            {"name": one.recording.name, "seconds": one.recording.seconds, "clips": len(one.clips),
             "totals": totals(one)}
            for one in result.recordings
        ],
        "unheard": list(unheard),
        "clips": [_clip_data(clip, usual) for clip in clips],
        "left": sorted(left, key=lambda row: -row["seconds"])[:_MOST_ROWS],
    }  # fmt: skip


def _clip_data(clip: WrittenClip, usual: float) -> dict[str, Any]:
    worst, why = _oddness(clip, usual)
    return {
        "name": clip.name, "start": clip.start, "seconds": clip.seconds, "text": clip.text,
        "levels": _thinned(clip.levels), "worst": round(worst, 3), "why": why,
    }  # fmt: skip


def _oddness(clip: WrittenClip, usual: float) -> tuple[float, str]:
    """How far its rate is from the others', and that in words where it is far."""
    if not clip.text or usual <= 0:
        return 0.0, ""
    rate = _rate(clip)
    odd = abs(math.log(rate / usual))
    if odd < _ODD_RATE:
        return odd, ""
    pace = "fast" if rate > usual else "slow"
    return odd, f"{pace}, {rate:.0f} characters a second where others have {usual:.0f}"


def _usual_rate(clips: Sequence[WrittenClip]) -> float:
    return statistics.median([_rate(clip) for clip in clips if clip.text] or [0.0])


def _rate(clip: WrittenClip) -> float:
    """Characters a second, without the quiet at both ends."""
    return max(len(clip.text), 1) / max(clip.seconds - 0.3, 0.1)


def _thinned(levels: Sequence[float]) -> list[float]:
    """The loudest of each stretch, at most `_POINTS`."""
    step = max(math.ceil(len(levels) / _POINTS), 1)
    return [max(levels[place : place + step]) for place in range(0, len(levels), step)]
