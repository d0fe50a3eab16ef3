"""NVML: memory, utilization and names of GPUs, without a CUDA context.

`python -m extras.common.readings.nvml` prints one reading as JSON for the doctor, which
calls a driver only in a child process.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from machine.errors import SotaqueError

LIBRARY = "libnvidia-ml.so.1"
COMPUTE_MODES = ("Default", "Exclusive_Thread", "Prohibited", "Exclusive_Process")


class NvmlError(SotaqueError):
    """The library is missing or reports an error; the text is the library's."""


@dataclass(frozen=True)
class GpuState:
    """One GPU as its driver describes it; a value that the driver does not report is None or "".

    Attributes:
        index: The driver's number. CUDA_VISIBLE_DEVICES does not change it, and CUDA may number in
            another order: `as_cuda_counts` finds cuda:N by `uuid`.
        busy_percent: Share of the last sampling period in which a kernel ran.
        uuid: "GPU-5ac1…".
    """

    index: int
    name: str
    busy_percent: float | None = None
    used_bytes: int | None = None
    total_bytes: int | None = None
    capability: tuple[int, int] | None = None
    driver_version: str = ""
    compute_mode: str = ""
    uuid: str = ""


def as_cuda_counts(states: tuple[GpuState, ...], uuids: Sequence[str]) -> tuple[GpuState, ...]:
    """The GPUs that a process sees, with CUDA's numbers.

    Args:
        states: Every GPU, with the driver's numbers.
        uuids: The UUIDs of cuda:0, cuda:1, … in this process, with or without the prefix "GPU-".

    Returns:
        One state for each UUID. If a UUID is not among `states`, as for a part of a GPU (MIG),
        `states` unchanged.
    """
    by_uuid = {state.uuid.removeprefix("GPU-"): state for state in states if state.uuid}
    ordered = [by_uuid.get(uuid.removeprefix("GPU-")) for uuid in uuids]
    if not ordered or None in ordered:
        return states
    return tuple(replace(state, index=index) for index, state in enumerate(ordered) if state)


class GpuUsageReader:
    """Reads the state of every GPU.

    Attributes:
        fault: Why it reads none: NVML is missing, finds no driver or has failed; "" while it works.
    """

    def __init__(self) -> None:
        self.fault = ""
        self._devices: list[object] = []
        try:
            _function("nvmlInit")
            count = _function("nvmlDeviceGetCount")
            self._devices = [_function("nvmlDeviceGetHandleByIndex", number) for number in range(count)]
        except NvmlError as error:
            self.fault = str(error)

    def read(self) -> tuple[GpuState, ...]:
        """The state of every GPU; takes well under a millisecond with a healthy driver."""
        driver = _optional("nvmlSystemGetDriverVersion") or ""
        return tuple(_state(index, device, driver) for index, device in enumerate(self._devices))

    def close(self) -> None:
        """Releases the driver."""
        _optional("nvmlShutdown")


def _state(index: int, device: object, driver: str) -> GpuState:
    memory = _optional("nvmlDeviceGetMemoryInfo", device)
    # A part of a GPU (MIG) reports no utilization.
    busy = _optional("nvmlDeviceGetUtilizationRates", device)
    mode = _optional("nvmlDeviceGetComputeMode", device)
    return GpuState(
        index=index,
        name=_optional("nvmlDeviceGetName", device) or "NVIDIA GPU",
        busy_percent=float(busy.gpu) if busy else None,
        used_bytes=int(memory.used) if memory else None,
        total_bytes=int(memory.total) if memory else None,
        capability=_optional("nvmlDeviceGetCudaComputeCapability", device),
        driver_version=driver,
        compute_mode=COMPUTE_MODES[mode] if mode is not None and mode < 4 else "",
        uuid=_optional("nvmlDeviceGetUUID", device) or "",
    )


def _optional(function: str, *arguments: object) -> Any:
    """Calls an NVML function; None if this GPU or this driver's library does not support it."""
    import pynvml

    try:
        return getattr(pynvml, function)(*arguments)
    except (pynvml.NVMLError, UnicodeDecodeError):
        return None


def _function(function: str, *arguments: object) -> Any:
    # Imported here: pynvml has 8,000 lines, and most users of this module need only GpuState.
    import pynvml

    try:
        return getattr(pynvml, function)(*arguments)
    except pynvml.NVMLError_FunctionNotFound as error:
        raise NvmlError(
            f"{LIBRARY} has no function {function}: it belongs to an old driver, or is a stub"
        ) from error
    except pynvml.NVMLError_LibraryNotFound as error:
        # The loader's text says more than "not found".
        raise NvmlError(str(error.__context__ or error)) from error
    except pynvml.NVMLError as error:
        raise NvmlError(f"{function}: {error} ({error.value})") from error


def main() -> int:
    """Prints one reading as a JSON line; without one, prints the reason on stderr and returns 1."""
    reader = GpuUsageReader()
    if reader.fault:
        sys.stderr.write(f"{reader.fault}\n")
        return 1
    sys.stdout.write(json.dumps([asdict(state) for state in reader.read()]) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
