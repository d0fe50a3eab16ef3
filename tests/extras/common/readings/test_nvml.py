"""What the NVML library says of the GPUs, read from an imitation of it."""

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pynvml
import pytest

from extras.common.readings import nvml
from extras.common.readings.nvml import GpuState, GpuUsageReader, as_cuda_counts


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
    whole, part = reader.read()
    assert reader.fault == "" and whole == GpuState(
        0, "RTX 3090", 42.0, 5 << 30, 24 << 30, (8, 6), "580.95.05", "Exclusive_Process", "GPU-5ac1-1"
    )
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
    assert {count.index: count.name for count in as_cuda_counts(states, uuids)} == names


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
    of_device = ("UtilizationRates", "ComputeMode", "Name", "CudaComputeCapability", "UUID")
    lacking = [f"nvmlDeviceGet{name}" for name in of_device]
    driver(FakeNvml(lacking=(*lacking, "nvmlShutdown", "nvmlSystemGetDriverVersion")))
    opened = GpuUsageReader()
    assert opened.read()[0] == GpuState(0, "NVIDIA GPU", None, 5 << 30, 24 << 30)
    opened.close()


@pytest.mark.parametrize(
    ("name", "told"), [("nvmlInitWithFlags", "nvmlInit"), ("nvmlDeviceGetCount_v2", "nvmlDeviceGetCount")]
)
def test_a_library_without_what_is_needed_is_none(driver, name, told):
    driver(FakeNvml(lacking=(name,)))
    reader = GpuUsageReader()
    assert reader.read() == () and f"has no function {told}" in reader.fault


@pytest.mark.skipif(Path("/dev/nvidia0").exists(), reason="this machine has what is to be missing")
def test_without_a_library_the_reason_is_the_loaders(capsys):
    assert nvml.main() == 1
    assert nvml.LIBRARY in capsys.readouterr().err
