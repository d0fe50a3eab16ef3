"""CPU and memory usage, read from an imitation of /proc."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from extras.doctor.usage import UsageMeter

PAGE, TICK = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")


def process(proc: Path, pid: int, parent: int, seconds: float, resident: int, shared: int) -> None:
    folder = proc / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    ticks = int(seconds * TICK)
    (folder / "stat").write_text(
        f"{pid} (py) (x) R {parent} 1 1 0 -1 0 0 0 0 0 {ticks} 0 0 0 20 0 1 0 5{' 0' * 30}\n"
    )
    (folder / "statm").write_text(f"9999 {resident // PAGE} {shared // PAGE} 1 0 1 0\n")


def machine(proc: Path, idle: int, busy: int) -> None:
    proc.mkdir(exist_ok=True)
    (proc / "stat").write_text(f"cpu  {busy} 0 0 {idle} 0 0 0 0 0 0\ncpu0 1 1 1 1\nbtime 9\n")
    rows = {
        "MemTotal": 1000,
        "MemFree": 1,
        "MemAvailable": 400,
        "Buffers": 1,
        "Cached": 1,
        "Active": 1,
        "Inactive": 1,
        "Shmem": 1,
    }
    text = "".join(f"{name}: {kilobytes} kB\n" for name, kilobytes in rows.items())
    (proc / "meminfo").write_text(text)


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder read instead of /proc."""
    folder = tmp_path / "proc"
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(folder))
    return folder


def test_cpu_is_what_was_used_since_the_reading_before(proc, tmp_path):
    machine(proc, idle=1000, busy=1000)
    meter = UsageMeter(cgroup=tmp_path)
    machine(proc, idle=1100, busy=1300)
    usage = meter.read()
    assert usage.cpu_percent == pytest.approx(75.0)
    assert (usage.memory_used_bytes, usage.memory_total_bytes) == (600 * 1024, 1000 * 1024)
    assert meter.read().cpu_percent is None  # no tick has passed


@pytest.mark.parametrize(
    "names",
    [
        ("memory.max", "memory.current", "memory.stat"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat"),
    ],
)
def test_a_containers_limit_is_the_machine(proc, tmp_path, names):
    cgroup = tmp_path / "cgroup"
    machine(proc, 1, 1)
    for name, text in zip(names, ("500000\n", "300000\n", "anon 5\ninactive_file 100000\n")):
        (cgroup / name).parent.mkdir(parents=True, exist_ok=True)
        (cgroup / name).write_text(text)
    usage = UsageMeter(cgroup=cgroup).read()
    assert (usage.memory_used_bytes, usage.memory_total_bytes) == (200_000, 500_000)
    (cgroup / names[0]).write_text("max\n")
    assert UsageMeter(cgroup=cgroup).read().memory_total_bytes == 1000 * 1024


def test_the_trainer_is_counted_with_its_children(proc, tmp_path):
    machine(proc, 1, 1)
    running = [10]
    process(proc, 10, 1, 5.0, 40 * PAGE, 10 * PAGE)
    process(proc, 11, 10, 1.0, 30 * PAGE, 20 * PAGE)
    process(proc, 12, 11, 1.0, 8 * PAGE, 8 * PAGE)
    process(proc, 99, 1, 50.0, 900 * PAGE, 0)  # an unrelated process
    meter = UsageMeter(trainer=lambda: running[0], cgroup=tmp_path)
    meter._read_at -= 2.0  # two seconds ago
    process(proc, 11, 10, 4.0, 30 * PAGE, 20 * PAGE)
    process(proc, 13, 10, 7.0, 0, 0)  # new: when it used its seven seconds is unknown
    usage = meter.read()
    assert usage.trainer_memory_bytes == (40 + 10) * PAGE
    assert usage.trainer_cpu_percent == pytest.approx(150.0, rel=0.05)
    running[0] = 14  # it has ended
    usage = meter.read()
    assert (usage.trainer_cpu_percent, usage.trainer_memory_bytes) == (None, None)


@pytest.mark.parametrize("text", ["", "garbage", "cpu x y\n", "\0" * 50])
def test_garbage_is_nothing_known(proc, tmp_path, text):
    folder = proc / "10"
    folder.mkdir(parents=True)
    for name in ("stat", "meminfo"):
        (proc / name).write_text(text)
    for name in ("stat", "statm"):
        (folder / name).write_text(text)
    usage = UsageMeter(trainer=lambda: 10, cgroup=tmp_path / "none").read()
    assert usage.cpu_percent is None and usage.memory_total_bytes is None
    assert usage.trainer_memory_bytes is None


def test_reading_this_process_sees_a_child(tmp_path):
    alone = UsageMeter(trainer=os.getpid).read().trainer_memory_bytes
    code = "x = bytearray(80_000_000); print(1, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        together = UsageMeter(trainer=os.getpid).read().trainer_memory_bytes
        child.communicate(b"\n")
    assert alone is not None and together is not None
    assert 70_000_000 < together - alone < 200_000_000
