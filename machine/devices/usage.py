"""CPU, RAM and GPU usage of the machine and of one process tree.

psutil reads the system; a container's memory limit, which it does not know, is read here.
"""

import contextlib
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import psutil

from machine.devices.nvml import GpuState
from machine.storage.reading import read_text

# What psutil raises for processes that are gone or not ours, and for a /proc that is none.
_UNREADABLE = (psutil.Error, OSError, RuntimeError, ValueError, LookupError, TypeError)
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


class UsageMeter:
    """Reads again and again; a share of CPU is that of the time since the reading before.

    gpus: a reading of them; trainer: the process whose tree is counted, asked again each time, None
    for none; cgroup: another folder in tests.
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
        try:
            now = psutil.cpu_times()
        except _UNREADABLE:
            return None
        idle = now.idle + getattr(now, "iowait", 0.0)
        # A guest's time is in user's and nice's already.
        whole = sum(now) - getattr(now, "guest", 0.0) - getattr(now, "guest_nice", 0.0)
        (idle_before, before), self._cpu_seconds = self._cpu_seconds, (idle, whole)
        if whole <= before:
            return None
        return max(0.0, 100.0 * (1 - (idle - idle_before) / (whole - before)))

    def _memory(self) -> tuple[int | None, int | None]:
        try:
            found = psutil.virtual_memory()
        except _UNREADABLE:
            return None, None
        return self._limited(found.total) or (found.total - found.available, found.total)

    def _limited(self, machine_bytes: int) -> tuple[int, int] | None:
        """Used and allowed in a container with a limit; what the kernel can drop is not used."""
        names = (("memory.max", "memory.current", "memory.stat"),
                 ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes",
                  "memory/memory.stat"))  # fmt: skip
        for limit_name, used_name, stat_name in names:
            limit = read_text(self._cgroup / limit_name).strip()
            used = read_text(self._cgroup / used_name).strip()
            if limit.isdigit() and used.isdigit() and int(limit) < machine_bytes:
                stat = read_text(self._cgroup / stat_name)
                dropped = re.search(r"^inactive_file (\d+)$", stat, re.MULTILINE)
                return max(0, int(used) - int(dropped[1] if dropped else 0)), int(limit)
        return None

    def _tree(self, seconds: float) -> tuple[float | None, int | None]:
        """CPU and memory of the trainer with its children. Pages that a child shares (libraries,
        what it was forked with) are counted once, with the trainer."""
        root = self._trainer()
        try:
            tree = _tree(root) if root else {}
        except _UNREADABLE:
            tree = {}
        if root is None or root not in tree:
            self._spent = {}
            return None, None
        spent = {pid: one.cpu_seconds for pid, one in tree.items()}
        # A process seen for the first time brings nothing: how old its time is, is not known.
        worked = sum(max(0.0, now - self._spent.get(pid, now)) for pid, now in spent.items())
        known, self._spent = bool(self._spent), spent
        memory = tree[root].resident_bytes + sum(
            max(0, one.resident_bytes - one.shared_bytes)
            for pid, one in tree.items()
            if pid != root
        )
        return (100.0 * worked / seconds if known and seconds > 0 else None), memory


class _Process(NamedTuple):
    cpu_seconds: float
    resident_bytes: int
    shared_bytes: int


def _tree(root: int) -> dict[int, _Process]:
    """A process and its descendants, by their numbers."""
    leader = psutil.Process(root)
    found = {}
    for one in (leader, *leader.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            times, memory = one.cpu_times(), one.memory_info()
            shared = getattr(memory, "shared", 0)  # Linux alone tells it
            found[one.pid] = _Process(times.user + times.system, memory.rss, shared)
    return found
