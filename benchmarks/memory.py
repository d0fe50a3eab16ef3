"""`python -m benchmarks memory`: the smallest card that each way of training needs (`cards`).

With --run, how much memory a whole run takes, workers included: trains a base model on a few clips
for one epoch with its sample, and adds up the proportional set size (PSS: shared pages counted
once) of the trainer and every process under it, twice a second.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import soundfile

from benchmarks import bases

CLIPS = 8
LOOK_SECONDS = 0.5
TEXTS = ("one two three", "four five six", "seven eight nine", "a short one", "the last of all")


def main(argv: Sequence[str]) -> int:
    """A line a mode; or, of a run, the peak and how it ended: its exit code is the run's."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks memory", description=__doc__)
    parser.add_argument("--full", action="store_true", help="XTTS-v2's size instead of the demo's")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--folder", type=Path, help="where the full-size base is kept")
    parser.add_argument("--run", action="store_true", help="a whole run instead of single steps")
    parser.add_argument("--only", type=int, help="one way of training, from 0")
    arguments = parser.parse_args(argv)
    if not arguments.run:
        from benchmarks import cards

        return cards.show(full=arguments.full, as_json=arguments.json, only=arguments.only)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        base = "demo"
        if arguments.full:
            base = str(bases.write(arguments.folder or folder / "base"))
        found = measure(base, folder)
    print(json.dumps(found) if arguments.json else _told(found))
    return int(found["exit_code"])


def measure(base: str, folder: Path) -> dict[str, float | int | str]:
    """Runs `python -m train` on `base` with 8 clips of 3 to 9 s for one epoch."""
    dataset(folder / "data")
    settings = {
        "base-model": base, "dataset-dir": folder / "data", "output-dir": folder / "output",
        "runs-dir": folder / "runs", "cache-dir": folder / "cache", "num-epochs": 1,
        "tensorboard": "off", "sample-text": "One two three.", "log-every": 1,
    }  # fmt: skip
    command = [sys.executable, "-m", "train", *(f"--{k}={v}" for k, v in settings.items())]
    started = time.monotonic()
    process = subprocess.Popen(command, stdout=sys.stderr)
    peak, trainer = 0, 0
    while process.poll() is None:
        sizes = {pid: pss_bytes(pid) for pid in tree(process.pid)}
        peak = max(peak, sum(sizes.values()))
        trainer = max(trainer, sizes.get(process.pid, 0))
        time.sleep(LOOK_SECONDS)
    samples = list((folder / "output" / "samples").glob("epoch_1_output.wav"))
    return {
        "base": base, "exit_code": process.returncode, "samples": len(samples),
        "peak_pss_bytes": peak, "trainer_pss_bytes": trainer,
        "seconds": round(time.monotonic() - started, 1),
    }  # fmt: skip


def tree(pid: int) -> list[int]:
    """A process and everything under it."""
    found = [pid]
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += tree(int(child))
    except (FileNotFoundError, ProcessLookupError):
        pass
    return found


def pss_bytes(pid: int) -> int:
    """The proportional set size of a process; 0 when it has gone."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        pass
    return 0


def dataset(folder: Path) -> None:
    """Eight clips of 3 to 9 s, a hum in noise, in LJSpeech's layout."""
    (folder / "wavs").mkdir(parents=True)
    generator = np.random.default_rng(0)
    rows = []
    for number in range(CLIPS):
        seconds = 3 + 6 * number / (CLIPS - 1)
        clock = np.arange(int(22_050 * seconds)) / 22_050
        hum = sum(np.sin(2 * np.pi * 120 * k * clock) / k for k in range(1, 10))
        sound = 0.1 * hum + 0.02 * generator.standard_normal(len(clock))
        soundfile.write(folder / "wavs" / f"{number}.wav", sound, 22_050)
        rows.append(f"{number}|{TEXTS[number % len(TEXTS)]} {'again ' * number}")
    (folder / "metadata.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")


def _told(found: dict[str, float | int | str]) -> str:
    peak, trainer = (float(found[n]) / 1e9 for n in ("peak_pss_bytes", "trainer_pss_bytes"))
    return (
        f"base {found['base']}: peak {peak:.2f} GB for all processes, {trainer:.2f} GB for the "
        f"trainer; {found['samples']} sample; {found['seconds']} s; exit {found['exit_code']}"
    )
