"""NVML: memory, utilization and names of GPUs, without a CUDA context.

`Nvml` is read by the monitor; `python -m machine.devices.nvml` prints one reading as JSON, for the
doctor, which asks a driver only through a child.
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
    """The library is not there, or says that something failed; the sentence is its own."""


@dataclass(frozen=True)
class GpuState:
    """One GPU as its driver describes it; what the driver does not tell is None or "".

    busy_percent: share of the last sampling period in which a kernel ran. index: the driver's
    count, which CUDA_VISIBLE_DEVICES does not change and CUDA's own order need not follow: what
    CUDA calls cuda:N is found by `uuid` ("GPU-5ac1…"; `as_cuda_counts`).
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
    """The GPUs that a process sees, numbered as its CUDA numbers them.

    Args:
        states: Every GPU, in the driver's count.
        uuids: That of cuda:0, cuda:1, … in this process, with or without "GPU-" before it.

    Returns:
        One state for each of them; `states` as they are where one is not found by its identifier: a
        part of a GPU (MIG) has another one than the driver's list, an old nvidia-smi tells none.
    """
    known = {state.uuid.removeprefix("GPU-"): state for state in states if state.uuid}
    found = [known.get(uuid.removeprefix("GPU-")) for uuid in uuids]
    if not found or None in found:
        return states
    return tuple(replace(state, index=index) for index, state in enumerate(found) if state)


class Nvml:
    """The library, opened.

    Raises:
        NvmlError: It is missing or has no driver to talk to.
    """

    def __init__(self) -> None:
        _required("nvmlInit")
        count = _required("nvmlDeviceGetCount")
        self._devices = [_required("nvmlDeviceGetHandleByIndex", index) for index in range(count)]

    def read(self) -> tuple[GpuState, ...]:
        """Every GPU now, in well under a millisecond where the driver is well."""
        driver = _optional("nvmlSystemGetDriverVersion") or ""
        return tuple(_state(index, device, driver) for index, device in enumerate(self._devices))

    def close(self) -> None:
        """Releases the driver."""
        _optional("nvmlShutdown")


def _state(index: int, device: Any, driver: str) -> GpuState:
    memory = _optional("nvmlDeviceGetMemoryInfo", device)
    # A part of a GPU (MIG) has no figure of its own for how busy it is.
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


def _optional(function: str, *arguments: Any) -> Any | None:
    """None where this GPU does not tell it, or this library lacks it: each driver exports its own
    set."""
    import pynvml

    try:
        return getattr(pynvml, function)(*arguments)
    except (pynvml.NVMLError, UnicodeDecodeError):
        return None


def _required(function: str, *arguments: Any) -> Any:
    # Here and not above: whoever only names a GpuState need not read 8,000 lines for it.
    import pynvml

    try:
        return getattr(pynvml, function)(*arguments)
    except pynvml.NVMLError_FunctionNotFound as error:
        raise NvmlError(
            f"{LIBRARY} has no function {function}: it is of an old driver, or a stub"
        ) from error
    except pynvml.NVMLError_LibraryNotFound as error:
        # What the loader said of it is more than that it was not found.
        raise NvmlError(str(error.__context__ or error)) from error
    except pynvml.NVMLError as error:
        raise NvmlError(f"{function}: {error} ({error.value})") from error


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
