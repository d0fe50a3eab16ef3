"""`python -m tests.extras.studio.datasets.fake_cut cut RECORDING… --to DIR`: two clips of each.

FAKE_CUT changes this: refuse, breathless (no pause at all), full, crash, hang (until it is killed;
the next time it resumes), odd (other clips), long (parts without a pause). Its arguments and the
way it runs are in DIR/given.json.
"""

import argparse
import hashlib
import io
import json
import os
import sys
import time
from pathlib import Path

import numpy as np
import soundfile

from extras.common.csv_table import csv_bytes

RATE = 16_000
TOO_LONG = "too long without a pause"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("verb")
    parser.add_argument("recordings", nargs="+", type=Path)
    parser.add_argument("--to", type=Path, required=True)
    parser.add_argument("--text", type=Path)
    parser.add_argument("--recogniser", type=Path)
    parser.add_argument("--language")
    given = parser.parse_args()
    how = os.environ.get("FAKE_CUT", "")
    if how == "refuse":
        print(f"The text does not fit {given.recordings[0]}: 0 of its 9 words.", file=sys.stderr)
        return 2
    if how == "breathless":
        print(
            "No clip could be cut: no speech of 1 to 11 s between pauses.\n"
            "tape: 80.0 s, of which 78.5 s too long without a pause, 1.5 s silence.\n"
            "tape: no pause of 0.12 s from 0:00:01 to 0:01:19 (78.5 s).",
            file=sys.stderr,
        )
        return 2
    if how == "full":
        print("No space left for the clips: 9 bytes needed, 1 free in /x/y.", file=sys.stderr)
        return 74
    if how == "crash":
        raise ZeroDivisionError("a fault of ours")
    work = given.to / ".cutting"
    work.mkdir(parents=True, exist_ok=True)
    if how == "hang" and not (work / "heard.jsonl").exists():
        (work / "heard.jsonl").write_text("half\n")
        print("tape: 320 of 640 s heard", flush=True)
        time.sleep(600)
    cut(given, how)
    return 0


def cut(given: argparse.Namespace, how: str) -> None:
    lines, texts, recordings = [], [], []
    left = {TOO_LONG: 35.0} if how == "long" else {}
    (given.to / "wavs").mkdir(exist_ok=True)
    for path in given.recordings:
        for number in (1, 2):
            name = f"{path.stem}-{number:04d}"
            content = wav(path.read_bytes()[:8], number + (2 if how == "odd" else 0))
            (given.to / "wavs" / f"{name}.wav").write_bytes(content)
            text = f"Sentence {number}, of {path.stem}." if given.text else ""
            lines.append(
                {
                    "name": name,
                    "start": 2.0 * number,
                    "seconds": 1.5,
                    "text": text,
                    "levels": [-60, -20, -30, -60],
                    "worst": number / 10,
                    "why": "fast" * (number - 1),
                    "recording": path.stem,
                    "sha256": hashlib.sha256(content).hexdigest(),
                }
            )
            texts.append(f"{name}|{text}\n")
        recordings.append(
            {
                "name": path.stem,
                "seconds": 10.0 + sum(left.values()),
                "clips": 2,
                "seconds_by_reason": {"silence": 7.0, "in a clip": 3.0} | left,
            }
        )
    told = {
        "pid": os.getpid(),
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "threads": os.environ.get("OMP_NUM_THREADS"),
        "language": given.language,
        "text": given.text and given.text.name,
        "recogniser": given.recogniser and str(given.recogniser),
        "resumed": (given.to / ".cutting/heard.jsonl").exists(),
        "recordings": [path.name for path in given.recordings],
        "oom": Path("/proc/self/oom_score_adj").read_text().strip(),
    }
    (given.to / "given.json").write_text(json.dumps(told))
    (given.to / "clips.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    header = ("recording", "start", "end", "seconds", "reason", "text")
    parts = [
        (path.stem, *(f"{time:.6f}" for time in (start, end, end - start)), TOO_LONG, 'So "it",')
        for path in given.recordings
        for start, end in ((5.0, 17.5), (65.0, 87.5))
        if left
    ]
    (given.to / "account.csv").write_bytes(csv_bytes(header, parts))
    (given.to / "metadata.csv").write_text("".join(texts))
    unheard = ["Nobody says this."] if given.text else []
    whole = {"recordings": recordings, "unheard_sentences": unheard, "speech_by": "the fake"}
    (given.to / "cut.json").write_text(json.dumps(whole))


def wav(seed: bytes, number: int) -> bytes:
    out = io.BytesIO()
    generator = np.random.default_rng([*seed, number])
    samples = (3_000 * generator.standard_normal(RATE * 3 // 2)).astype("<i2")
    soundfile.write(out, samples, RATE, format="WAV")
    return out.getvalue()


if __name__ == "__main__":
    sys.exit(main())
