"""What benchmarks measure with: contestants in turns, memory, and child processes.

Importing this imports no torch, for the processes whose memory is measured.
"""

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from machine.errors import SotaqueError
from machine.process import last_line

T = TypeVar("T")


class ChildFailed(SotaqueError):
    """A process of a benchmark ended with an error."""


def in_turns(
    contestants: Mapping[str, Callable[[], T]], rounds: int, *, warm_up: int = 1
) -> dict[str, list[T]]:
    """What each contestant returns, once a round in the same order; the first `warm_up` rounds are
    not counted."""
    seen: dict[str, list[T]] = {name: [] for name in contestants}
    for number in range(rounds + warm_up):
        for name, contestant in contestants.items():
            found = contestant()
            if number >= warm_up:
                seen[name].append(found)
    return seen


def medians(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Of each figure, over rows that have the same."""
    return {name: round(statistics.median(row[name] for row in rows), 3) for name in rows[0]}


def memory_bytes(name: str, pid: int | str = "self") -> int:
    """A size of /proc/PID/status: VmRSS, what is resident, or VmHWM, the most there ever was; 0
    when the process has ended. Mapped files are included."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    sizes = [line.split()[1] for line in status.splitlines() if line.startswith(f"{name}:")]
    return int(sizes[0]) * 1024 if sizes else 0


def ask(module: str, *words: object, limit_seconds: float | None = None) -> dict[str, Any]:
    """The JSON object that `python -m MODULE WORDS` prints last. Raises ChildFailed."""
    command = [sys.executable, "-m", module, *map(str, words)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=limit_seconds, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ChildFailed(f"{' '.join(command)} took more than {limit_seconds:g} s") from error
    lines = done.stdout.splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith("{")]
    if done.returncode or not starts:
        raise ChildFailed(
            f"{' '.join(command)} ended with {done.returncode}; it said last: "
            f"{last_line(done.stderr) or 'nothing'}"
        )
    found: dict[str, Any] = json.loads("\n".join(lines[starts[-1] :]))
    return found


def training_command(folder: Path, **settings: object) -> list[str]:
    """`python -m train` with everything that it writes below `folder`, without TensorBoard;
    settings by their names, `_` for `-`."""
    asked: dict[str, object] = {
        "output_dir": folder / "output", "runs_dir": folder / "runs",
        "cache_dir": folder / "cache", "tensorboard": "off", **settings,
    }  # fmt: skip
    words = [f"--{name.replace('_', '-')}={value}" for name, value in asked.items()]
    return [sys.executable, "-m", "train", *words]


def train_once(done: Path, log: Path, folder: Path, **settings: object) -> None:
    """As `training_command`, to the end, but not again where the file `done` says so. Raises
    ChildFailed."""
    if done.exists():
        return
    done.parent.mkdir(parents=True, exist_ok=True)
    command = training_command(folder, **settings)
    with log.open("a", encoding="utf-8") as file:
        ended = subprocess.run(command, stdout=file, stderr=file, check=False)
    if ended.returncode:
        raise ChildFailed(f"The run ended with {ended.returncode}; see {log}.")
    done.touch()
