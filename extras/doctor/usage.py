"""CPU, RAM and GPU usage of the machine and of one process tree.

psutil reads the system. It does not know a container's memory limit, which is read here.
"""

import contextlib
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import psutil

from extras.common.readings.nvml import GpuState
from machine.storage.files import read_text

# psutil's errors for a process that has ended or belongs to another user, and for a broken /proc.
_READING_ERRORS = (psutil.Error, OSError, RuntimeError, ValueError, LookupError, TypeError)
CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Usage:
    """One reading; None means unknown, or that there is no such process.

    Attributes:
        cpu_percent: The utilization of all cores together, since the previous reading.
        memory_used_bytes, memory_total_bytes: For the machine, or for the container if its limit is
            lower.
        trainer_cpu_percent: 100 is one core.
    """

    gpus: tuple[GpuState, ...] = ()
    cpu_percent: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    trainer_cpu_percent: float | None = None
    trainer_memory_bytes: int | None = None


class UsageMeter:
    """Reads usage repeatedly; CPU usage covers the time since the previous reading.

    Args:
        gpus: Reads the GPUs.
        trainer: Returns the root of the process tree to count, or None; called at each reading.
        cgroup: Tests pass another folder.
    """

    def __init__(
        self,
        gpus: Callable[[], tuple[GpuState, ...]] = tuple,
        trainer: Callable[[], int | None] = lambda: None,
        *,
        cgroup: Path = CGROUP,
    ) -> None:
        self._gpus, self._trainer = gpus, trainer
        self._cgroup = cgroup
        self._cpu_seconds = 0.0, 0.0
        self._cpu_seconds_by_pid: dict[int, float] = {}
        self._read_at = time.monotonic()
        self.read()  # the baseline of the first real reading

    def read(self) -> Usage:
        """Reads everything; a value that cannot be read is None."""
        now = time.monotonic()
        seconds, self._read_at = now - self._read_at, now
        used, total = self._memory()
        trainer_cpu, trainer_memory = self._tree(seconds)
        return Usage(self._gpus(), self._cpu(), used, total, trainer_cpu, trainer_memory)

    def _cpu(self) -> float | None:
        try:
            now = psutil.cpu_times()
        except _READING_ERRORS:
            return None
        idle = now.idle + getattr(now, "iowait", 0.0)
        # The guest time is already part of user and nice.
        total = sum(now) - getattr(now, "guest", 0.0) - getattr(now, "guest_nice", 0.0)
        (idle_before, total_before), self._cpu_seconds = self._cpu_seconds, (idle, total)
        if total <= total_before:
            return None
        return max(0.0, 100.0 * (1 - (idle - idle_before) / (total - total_before)))

    def _memory(self) -> tuple[int | None, int | None]:
        try:
            memory = psutil.virtual_memory()
        except _READING_ERRORS:
            return None, None
        return self._container_memory(memory.total) or (memory.total - memory.available, memory.total)

    def _container_memory(self, machine_bytes: int) -> tuple[int, int] | None:
        """(used, limit) in a container with a limit; reclaimable page cache does not count."""
        names = (
            ("memory.max", "memory.current", "memory.stat"),
            ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat"),
        )
        for limit_name, used_name, stat_name in names:
            limit = read_text(self._cgroup / limit_name).strip()
            used = read_text(self._cgroup / used_name).strip()
            if limit.isdigit() and used.isdigit() and int(limit) < machine_bytes:
                stat = read_text(self._cgroup / stat_name)
                inactive_file = re.search(r"^inactive_file (\d+)$", stat, re.MULTILINE)
                return max(0, int(used) - int(inactive_file[1] if inactive_file else 0)), int(limit)
        return None

    def _tree(self, seconds: float) -> tuple[float | None, int | None]:
        """CPU and memory of the trainer and its children; shared pages count once."""
        root = self._trainer()
        try:
            tree = _tree(root) if root else {}
        except _READING_ERRORS:
            tree = {}
        if root is None or root not in tree:
            self._cpu_seconds_by_pid = {}
            return None, None
        spent = {pid: process.cpu_seconds for pid, process in tree.items()}
        # A process seen for the first time adds nothing: its time may be older than this interval.
        cpu_seconds = sum(
            max(0.0, now - self._cpu_seconds_by_pid.get(pid, now)) for pid, now in spent.items()
        )
        has_earlier, self._cpu_seconds_by_pid = bool(self._cpu_seconds_by_pid), spent
        memory = tree[root].resident_bytes + sum(
            max(0, process.resident_bytes - process.shared_bytes)
            for pid, process in tree.items()
            if pid != root
        )
        return (100.0 * cpu_seconds / seconds if has_earlier and seconds > 0 else None), memory


class _Process(NamedTuple):
    cpu_seconds: float
    resident_bytes: int
    shared_bytes: int


def _tree(root: int) -> dict[int, _Process]:
    """A process and its descendants, by process ID."""
    leader = psutil.Process(root)
    processes = {}
    for process in (leader, *leader.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            times, memory = process.cpu_times(), process.memory_info()
            shared = getattr(memory, "shared", 0)  # only Linux reports it
            processes[process.pid] = _Process(times.user + times.system, memory.rss, shared)
    return processes
