"""CPU, RAM and GPU usage of the machine and of one process tree.

Read from /proc, without psutil: cheap enough to be done beside a training step.
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from machine.devices.nvml import GpuState

PROC = Path("/proc")
CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Usage:
    """One reading. cpu_percent: of all cores together, since the reading before. memory_*: of the
    machine, or of the container where its limit is lower. trainer_cpu_percent: 100 is one core.
    None: not known, or there is no such process."""

    gpus: tuple[GpuState, ...] = ()
    cpu_percent: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    trainer_cpu_percent: float | None = None
    trainer_memory_bytes: int | None = None


class _Process(NamedTuple):
    parent: int
    cpu_seconds: float
    resident_bytes: int
    shared_bytes: int


class UsageMeter:
    """Reads again and again; a share of CPU is that of the time since the reading before.

    gpus: a reading of them; trainer: the process whose tree is told, asked anew each time, None for
    none; proc, cgroup: other folders in tests.
    """

    def __init__(
        self,
        gpus: Callable[[], tuple[GpuState, ...]] = tuple,
        trainer: Callable[[], int | None] = lambda: None,
        *,
        proc: Path = PROC,
        cgroup: Path = CGROUP,
    ) -> None:
        self._gpus, self._trainer = gpus, trainer
        self._proc, self._cgroup = proc, cgroup
        self._ticks = 0.0, 0.0
        self._spent: dict[int, float] = {}
        self._read_at = time.monotonic()
        self.read()  # what the first real reading is compared with

    def read(self) -> Usage:
        """Everything now; what cannot be read is None."""
        now = time.monotonic()
        seconds, self._read_at = now - self._read_at, now
        used, total = self._memory()
        trainer_cpu, trainer_memory = self._tree(seconds)
        return Usage(self._gpus(), self._cpu(), used, total, trainer_cpu, trainer_memory)

    def _cpu(self) -> float | None:
        words = _text(self._proc / "stat").partition("\n")[0].split()
        with contextlib.suppress(ValueError, IndexError):
            ticks = [float(word) for word in words[1:9]]
            idle, whole = ticks[3] + ticks[4], sum(ticks)
            (idle_before, before), self._ticks = self._ticks, (idle, whole)
            if whole > before:
                return max(0.0, 100.0 * (1 - (idle - idle_before) / (whole - before)))
        return None

    def _memory(self) -> tuple[int | None, int | None]:
        rows = dict(line.partition(":")[::2] for line in _text(self._proc / "meminfo").splitlines())
        with contextlib.suppress(KeyError, ValueError, IndexError):
            total, free = (
                int(rows[name].split()[0]) * 1024 for name in ("MemTotal", "MemAvailable")
            )
            return self._limited(total) or (total - free, total)
        return None, None

    def _limited(self, machine_bytes: int) -> tuple[int, int] | None:
        """Used and allowed in a container with a limit; what the kernel can drop is not used."""
        names = (("memory.max", "memory.current", "memory.stat"),
                 ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes",
                  "memory/memory.stat"))  # fmt: skip
        for limit_name, used_name, stat_name in names:
            limit = _text(self._cgroup / limit_name).strip()
            used = _text(self._cgroup / used_name).strip()
            if limit.isdigit() and used.isdigit() and int(limit) < machine_bytes:
                rows = dict(
                    line.split(maxsplit=1)
                    for line in _text(self._cgroup / stat_name).splitlines()
                    if " " in line
                )
                droppable = rows.get("inactive_file", "0").strip()
                dropped = int(droppable) if droppable.isdigit() else 0
                return max(0, int(used) - dropped), int(limit)
        return None

    def _tree(self, seconds: float) -> tuple[float | None, int | None]:
        """CPU and memory of the trainer with its children. Pages that a child shares (libraries,
        what it was forked with) are counted once, with the trainer."""
        root = self._trainer()
        processes = _processes(self._proc) if root else {}
        if root is None or root not in processes:
            self._spent = {}
            return None, None
        members = _descendants(root, processes)
        spent = {pid: processes[pid].cpu_seconds for pid in members}
        # A process seen for the first time brings nothing: how old its time is nobody knows.
        worked = sum(max(0.0, now - self._spent.get(pid, now)) for pid, now in spent.items())
        known, self._spent = bool(self._spent), spent
        memory = processes[root].resident_bytes + sum(
            max(0, processes[pid].resident_bytes - processes[pid].shared_bytes)
            for pid in members
            if pid != root
        )
        return (100.0 * worked / seconds if known and seconds > 0 else None), memory


def _descendants(root: int, processes: dict[int, _Process]) -> list[int]:
    children: dict[int, list[int]] = {}
    for pid, one in processes.items():
        children.setdefault(one.parent, []).append(pid)
    found = [root]
    for pid in found:  # grows while it is walked
        found += children.get(pid, [])
    return found


def _processes(proc: Path) -> dict[int, _Process]:
    ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    found = {}
    for name in _names(proc):
        # The name in brackets may hold anything, brackets and blanks too.
        words = _text(proc / name / "stat").rpartition(")")[2].split()
        sizes = _text(proc / name / "statm").split()
        with contextlib.suppress(IndexError, ValueError):
            found[int(name)] = _Process(
                int(words[1]), (int(words[11]) + int(words[12])) / ticks,
                int(sizes[1]) * page, int(sizes[2]) * page,
            )  # fmt: skip
    return found


def _names(proc: Path) -> Iterable[str]:
    with contextlib.suppress(OSError):
        return [name for name in os.listdir(proc) if name.isdigit()]
    return []


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
