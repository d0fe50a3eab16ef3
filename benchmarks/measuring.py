"""Tools for measuring: contestants in turns, memory, and child processes.

Importing this module does not import torch, which would take memory in the processes that are
measured.
"""

import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from extras.common.answers import ask_once
from machine.errors import SotaqueError

T = TypeVar("T")


class ChildFailed(SotaqueError):
    """A process of a benchmark ended with an error."""


def in_turns(
    contestants: Mapping[str, Callable[[], T]], rounds: int, *, warm_up: int = 1
) -> dict[str, list[T]]:
    """The results of each contestant, once per round in the same order; the first `warm_up` rounds
    are not counted."""
    results: dict[str, list[T]] = {name: [] for name in contestants}
    for number in range(rounds + warm_up):
        for name, contestant in contestants.items():
            result = contestant()
            if number >= warm_up:
                results[name].append(result)
    return results


def seconds_of(work: Callable[[], object]) -> float:
    """The wall time of some work, in seconds."""
    started_at = time.perf_counter()
    work()
    return time.perf_counter() - started_at


def medians(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The median of each figure, over rows with the same figures."""
    return {name: round(statistics.median(row[name] for row in rows), 3) for name in rows[0]}


def memory_bytes(name: str, pid: int | str = "self") -> int:
    """A size in /proc/PID/status, including mapped files: VmRSS, the resident memory, or VmHWM, its
    peak; 0 for a zombie."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    sizes = [line.split()[1] for line in status.splitlines() if line.startswith(f"{name}:")]
    return int(sizes[0]) * 1024 if sizes else 0


def ask(module: str, *words: object, limit_seconds: float = 3600.0) -> Any:
    """The last line that `python -m MODULE WORDS` prints, from JSON. Raises ChildFailed."""
    command = [sys.executable, "-m", module, *map(str, words)]
    child = ask_once(command, limit_seconds)
    if child.answer is None:
        raise ChildFailed(f"{' '.join(command)}: {child.last_error}")
    return child.answer


def training_command(folder: Path, **settings: object) -> list[str]:
    """`python -m train` with everything that it writes below `folder`, without TensorBoard;
    settings by their names, `_` for `-`."""
    options: dict[str, object] = {
        "output_dir": folder / "output",
        "runs_dir": folder / "runs",
        "cache_dir": folder / "cache",
        "tensorboard": "off",
        **settings,
    }
    words = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    return [sys.executable, "-m", "train", *words]
