"""`python -m benchmarks loading`: from the start of a process to the first sound, and the memory
that it takes at its peak: ours against Coqui's `Xtts`, each in a process of its own, in turns.

The files are in the page cache after the first, unmeasured, round. `--full` is XTTS-v2's size.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import bases

SIDES = ("torch alone", "coqui", "ours fp32", "ours auto")


def main(argv: Sequence[str]) -> int:
    """Prints the table, or JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks loading", description=__doc__)
    parser.add_argument("--full", action="store_true", help="XTTS-v2's size")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--codes", type=int, default=40)
    parser.add_argument("--folder", type=Path, help="where the base model is kept")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as name:
        folder = bases.write(arguments.folder or Path(name) / "base", full=arguments.full)
        found = compared(folder, arguments.rounds, arguments.codes)
    print(json.dumps(found, indent=1) if arguments.json else _told(found))
    return 0


def compared(folder: Path, rounds: int, codes: int) -> dict[str, dict[str, float]]:
    """Medians of each side; the first round warms the page cache and is left out."""
    seen: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    for number in range(rounds + 1):
        for side in SIDES:
            found = started(side, folder, codes)
            if number:
                seen[side].append(found)
    return {
        side: {name: round(statistics.median(row[name] for row in rows), 3) for name in rows[0]}
        for side, rows in seen.items()
    }


def started(side: str, folder: Path, codes: int) -> dict[str, float]:
    """One process: seconds from its start to each mark, CPU seconds, and its peak memory."""
    command = [sys.executable, "-m", "benchmarks.loading_child", side, str(folder), str(codes)]
    began = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert child.stdout is not None
    marks = {line.strip(): time.monotonic() - began for line in child.stdout}
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {child.returncode}")
    return {
        "imported": marks["imported"],
        "loaded": marks.get("loaded", marks["imported"]),
        "first_audio": marks.get("first audio", marks["imported"]),
        "cpu": usage.ru_utime + usage.ru_stime,
        "peak_gb": usage.ru_maxrss * 1024 / 1e9,
    }


def _told(found: dict[str, dict[str, Any]]) -> str:
    lines = [
        f"{'':12} {'imported':>9} {'loaded':>8} {'first audio':>12} {'CPU':>8} {'peak memory':>12}"
    ]
    lines += [
        f"{side:12} {row['imported']:7.2f} s {row['loaded']:6.2f} s {row['first_audio']:10.2f} s "
        f"{row['cpu']:6.2f} s {row['peak_gb']:9.2f} GB"
        for side, row in found.items()
    ]
    return "\n".join(lines)
