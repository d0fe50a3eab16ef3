"""NVML: memory, utilization, temperature and names of GPUs, without a CUDA context.

`Nvml` is read by the monitor; `python -m machine.devices.nvml` prints one reading as JSON, for the
doctor, which asks a driver only through a child.
"""

import ctypes
import json
import sys
from dataclasses import asdict, dataclass
from typing import Any

from machine.errors import SotaqueError

LIBRARY = "libnvidia-ml.so.1"
COMPUTE_MODES = ("Default", "Exclusive_Thread", "Prohibited", "Exclusive_Process")


class NvmlError(SotaqueError):
    """The library is not there, or says that something failed; the sentence is its own."""


@dataclass(frozen=True)
class GpuState:
    """One GPU as its driver describes it; what the driver does not tell is None or "".

    busy_percent: share of the last sampling period in which a kernel ran. index: the driver's
    count, which CUDA_VISIBLE_DEVICES does not change.
    """

    index: int
    name: str
    busy_percent: float | None = None
    used_bytes: int | None = None
    total_bytes: int | None = None
    capability: tuple[int, int] | None = None
    driver_version: str = ""
    compute_mode: str = ""


class _Memory(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]


class _Utilization(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class Nvml:
    """The library, opened; raises NvmlError where it is missing or has no driver to talk to.

    library: what stands in for it in tests.
    """

    def __init__(self, library: Any = None) -> None:
        try:
            self._library = library or ctypes.CDLL(LIBRARY)
        except OSError as error:
            raise NvmlError(str(error)) from error
        self._call("nvmlInit_v2")
        count = ctypes.c_uint()
        self._call("nvmlDeviceGetCount_v2", ctypes.byref(count))
        self._devices = [self._device(index) for index in range(count.value)]

    def read(self) -> tuple[GpuState, ...]:
        """Every GPU now, in well under a millisecond where the driver is well."""
        driver = self._text("nvmlSystemGetDriverVersion")
        return tuple(
            self._state(index, device, driver) for index, device in enumerate(self._devices)
        )

    def close(self) -> None:
        """Lets the driver go."""
        self._answered("nvmlShutdown")

    def _state(self, index: int, device: ctypes.c_void_p, driver: str) -> GpuState:
        memory, busy = _Memory(), _Utilization()
        major, minor, mode = ctypes.c_int(), ctypes.c_int(), ctypes.c_uint()
        has = self._answered
        told = has("nvmlDeviceGetMemoryInfo", device, ctypes.byref(memory))
        # A part of a GPU (MIG) has no figure of its own for how busy it is.
        moves = has("nvmlDeviceGetUtilizationRates", device, ctypes.byref(busy))
        kind = has(
            "nvmlDeviceGetCudaComputeCapability", device, ctypes.byref(major), ctypes.byref(minor)
        )
        owned = has("nvmlDeviceGetComputeMode", device, ctypes.byref(mode))
        return GpuState(
            index=index,
            name=self._text("nvmlDeviceGetName", device) or "NVIDIA GPU",
            busy_percent=float(busy.gpu) if moves else None,
            used_bytes=int(memory.used) if told else None,
            total_bytes=int(memory.total) if told else None,
            capability=(major.value, minor.value) if kind else None,
            driver_version=driver,
            compute_mode=COMPUTE_MODES[mode.value] if owned and mode.value < 4 else "",
        )

    def _device(self, index: int) -> ctypes.c_void_p:
        device = ctypes.c_void_p()
        self._call("nvmlDeviceGetHandleByIndex_v2", index, ctypes.byref(device))
        return device

    def _text(self, function: str, *arguments: Any) -> str:
        text = ctypes.create_string_buffer(96)
        answered = self._answered(function, *arguments, text, len(text))
        return text.value.decode(errors="replace") if answered else ""

    def _answered(self, function: str, *arguments: Any) -> bool:
        called = self._function(function)
        return called is not None and int(called(*arguments)) == 0

    def _call(self, function: str, *arguments: Any) -> None:
        called = self._function(function)
        if called is None:
            raise NvmlError(
                f"{LIBRARY} has no function {function}: it is of an old driver, or a stub"
            )
        if status := int(called(*arguments)):
            raise NvmlError(f"{function}: {self._error_text(status)} ({status})")

    def _error_text(self, status: int) -> str:
        called = self._function("nvmlErrorString")
        if called is None:
            return "error"
        called.restype = ctypes.c_char_p
        return (called(status) or b"").decode(errors="replace")

    def _function(self, name: str) -> Any:
        """None where this library lacks it: each driver exports its own set."""
        return getattr(self._library, name, None)


def main() -> int:
    """Prints one reading as a JSON line; 1 and the reason on stderr where there is none."""
    try:
        found = Nvml().read()
    except NvmlError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(json.dumps([asdict(one) for one in found]) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
