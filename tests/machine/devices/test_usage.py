"""CPU, memory and GPU usage, read from an imitation of /proc and of the NVML library."""

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pynvml
import pytest

from machine.devices import nvml
from machine.devices.nvml import GpuState, GpuUsageReader, as_cuda_counts
from machine.devices.usage import UsageMeter

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
    rows = {"MemTotal": 1000, "MemFree": 1, "MemAvailable": 400, "Buffers": 1, "Cached": 1,
            "Active": 1, "Inactive": 1, "Shmem": 1}  # fmt: skip
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


def number_of(device: Any) -> int:
    return ctypes.cast(device, ctypes.c_void_p).value or 0


def put(**values: Any) -> int:
    """Fills a call's output arguments; 0 is NVML's success."""
    for name, (pointer, value) in values.items():
        setattr(getattr(pointer, "_obj", pointer), name, value)
    return 0


class FakeNvml:
    """The C library under NVIDIA's binding, with two GPUs. The second is a MIG instance and does
    not report utilisation."""

    def __init__(self, broken: str = "", lacking: tuple[str, ...] = (), status: int = 15) -> None:
        self.broken, self.lacking, self.status = broken, lacking, status
        self.closed = False

    def __getattr__(self, name: str) -> Any:
        answers = {
            "nvmlInitWithFlags": lambda _flags: 0,
            "nvmlShutdown": lambda: setattr(self, "closed", True) or 0,
            "nvmlDeviceGetCount_v2": lambda count: put(value=(count, 2)),
            "nvmlDeviceGetHandleByIndex_v2": self._handle,
            "nvmlSystemGetDriverVersion": lambda text, _: put(value=(text, b"580.95.05")),
            "nvmlDeviceGetName": lambda _device, text, _: put(value=(text, b"RTX 3090")),
            "nvmlDeviceGetMemoryInfo": lambda _device, memory: put(
                total=(memory, 24 << 30), used=(memory, 5 << 30)
            ),
            "nvmlDeviceGetUtilizationRates": lambda device, busy: (
                put(gpu=(busy, 42)) or 3 * (number_of(device) == 2)
            ),
            "nvmlDeviceGetCudaComputeCapability": lambda _device, major, minor: (
                put(value=(major, 8)) or put(value=(minor, 6))
            ),
            "nvmlDeviceGetUUID": lambda device, text, _: put(
                value=(text, b"GPU-5ac1-%d" % number_of(device))
            ),
            "nvmlDeviceGetComputeMode": lambda _device, mode: put(value=(mode, 3)),
        }
        if name in self.lacking or name not in answers:
            raise AttributeError(f"undefined symbol: {name}")  # as ctypes does
        return (lambda *_: self.status) if name == self.broken else answers[name]

    @staticmethod
    def _handle(index: ctypes.c_uint, device: Any) -> int:
        ctypes.cast(device, ctypes.POINTER(ctypes.c_void_p))[0] = index.value + 1
        return 0


Driver = Callable[[FakeNvml], FakeNvml]


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    """Replaces the library that the binding has loaded."""

    def load(library: FakeNvml) -> FakeNvml:
        monkeypatch.setattr(pynvml, "nvmlLib", library)
        monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
        return library

    return load


def test_nvml_is_read(driver):
    library = driver(FakeNvml())
    reader = GpuUsageReader()
    one, part = reader.read()
    assert reader.fault == "" and one == GpuState(
        0, "RTX 3090", 42.0, 5 << 30, 24 << 30, (8, 6), "580.95.05", "Exclusive_Process",
        "GPU-5ac1-1",
    )  # fmt: skip
    assert part.busy_percent is None and part.index == 1
    reader.close()
    assert library.closed


@pytest.mark.parametrize(
    ("uuids", "names"),
    [
        ([], {0: "A", 1: "B", 2: "C"}),  # this process has not initialised CUDA
        (["2c", "0a"], {0: "C", 1: "A"}),  # CUDA_VISIBLE_DEVICES=2,0
        (["GPU-1b"], {0: "B"}),
        (["1b", "MIG-77"], {0: "A", 1: "B", 2: "C"}),
    ],
)
def test_gpus_are_numbered_as_cuda_does(uuids, names):
    states = tuple(
        GpuState(index, name, uuid=f"GPU-{index}{name.lower()}") for index, name in enumerate("ABC")
    )
    assert {one.index: one.name for one in as_cuda_counts(states, uuids)} == names


def test_gpus_without_identifiers_are_told_in_the_drivers_count():
    states = (GpuState(0, "A"), GpuState(1, "B"))
    assert as_cuda_counts(states, ["1b"]) == states


def test_nvml_says_what_failed(driver):
    for status, told in ((15, "GPU is lost (15)"), (77, "77")):
        driver(FakeNvml("nvmlInitWithFlags", status=status))
        fault = GpuUsageReader().fault
        assert fault.startswith("nvmlInit: ") and told in fault
    driver(FakeNvml("nvmlDeviceGetCount_v2"))
    reader = GpuUsageReader()
    assert reader.read() == () and "GPU is lost" in reader.fault


def test_a_library_without_some_functions_tells_what_it_can(driver):
    lacking = ("nvmlDeviceGetUtilizationRates", "nvmlDeviceGetComputeMode", "nvmlShutdown",
               "nvmlDeviceGetName", "nvmlSystemGetDriverVersion",
               "nvmlDeviceGetCudaComputeCapability", "nvmlDeviceGetUUID")  # fmt: skip
    driver(FakeNvml(lacking=lacking))
    opened = GpuUsageReader()
    assert opened.read()[0] == GpuState(0, "NVIDIA GPU", None, 5 << 30, 24 << 30)
    opened.close()


@pytest.mark.parametrize(
    ("name", "told"),
    [("nvmlInitWithFlags", "nvmlInit"), ("nvmlDeviceGetCount_v2", "nvmlDeviceGetCount")],
)
def test_a_library_without_what_is_needed_is_none(driver, name, told):
    driver(FakeNvml(lacking=(name,)))
    reader = GpuUsageReader()
    assert reader.read() == () and f"has no function {told}" in reader.fault


@pytest.mark.skipif(Path("/dev/nvidia0").exists(), reason="this machine has what is to be missing")
def test_without_a_library_the_reason_is_the_loaders(capsys):
    assert nvml.main() == 1
    assert nvml.LIBRARY in capsys.readouterr().err


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
