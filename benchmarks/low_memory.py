"""`python -m benchmarks low_memory`: what each lever of LOW_MEMORY saves and costs, alone and all
together, with torch and with ONNX Runtime; beside Coqui's `Xtts` with `--coqui`.

Each row is a process of its own that loads, speaks one sentence, and reports its highest resident
memory (the kernel's VmHWM, mapped files included), what is resident after speaking, and times.
`--full` is XTTS-v2's size and 151 codes, 7 s; without it a small model, some 50 s of two quiet
cores. The base model and its export are kept with --folder.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import bases, onnx_voice
from benchmarks.low_memory_child import LEVERS


def main(argv: Sequence[str]) -> int:
    """Prints the table, or JSON."""
    arguments = _parser().parse_args(argv)
    names = [name for name in LEVERS if name != "coqui" or arguments.coqui]
    if arguments.rows:
        names = [name for name in names if any(word in name for word in arguments.rows.split(","))]
    codes = arguments.codes or (151 if arguments.full else 12)
    with tempfile.TemporaryDirectory() as name:
        folder = bases.write(arguments.folder or Path(name) / "base", full=arguments.full)
        onnx_voice.folder_of(folder)
        found = measured(folder, names, codes, arguments.threads, arguments.rounds)
    print(json.dumps(found, indent=1) if arguments.json else _told(found))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks low_memory", description=__doc__)
    parser.add_argument("--full", action="store_true", help="XTTS-v2's size")
    parser.add_argument("--coqui", action="store_true", help="Coqui's Xtts too")
    parser.add_argument("--rows", help="words, by commas: only rows that hold one of them")
    parser.add_argument("--codes", type=int, help="how many each says")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="where the base model is kept")
    parser.add_argument("--json", action="store_true")
    return parser


def measured(
    folder: Path, names: Sequence[str], codes: int, threads: int, rounds: int
) -> dict[str, dict[str, float]]:
    """Medians of each row, round by round."""
    seen: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            seen[name].append(started(name, folder, codes, threads))
    return {
        name: {fact: round(statistics.median(row[fact] for row in rows), 3) for fact in rows[0]}
        for name, rows in seen.items()
    }


def started(name: str, folder: Path, codes: int, threads: int) -> dict[str, float]:
    """One process. Raises RuntimeError when it fails."""
    command = [sys.executable, "-m", "benchmarks.low_memory_child", name, str(folder)]
    done = subprocess.run(
        [*command, str(codes), str(threads)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [""])[-1]
        raise RuntimeError(f"{name}: {' '.join(command)} ended with {done.returncode}: {last}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _told(found: dict[str, dict[str, Any]]) -> str:
    width = max(map(len, found))
    lines = [
        f"{'':{width}} {'peak':>8} {'at rest':>8} {'loaded':>8} {'spoken':>8} {'CPU':>7} {'RTF':>6}"
    ]
    lines += [
        f"{name:{width}} {row['peak_gb']:5.2f} GB {row['rest_gb']:5.2f} GB {row['load']:6.2f} s "
        f"{row['speak']:6.2f} s {row['cpu']:5.1f} s {row['rtf']:6.2f}"
        for name, row in found.items()
    ]
    return "\n".join(lines)
