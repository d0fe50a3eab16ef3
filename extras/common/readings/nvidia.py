"""Reads the GPUs from nvidia-smi or NVML, and where the loader finds libcuda."""

import sys
from collections.abc import Mapping

from extras.common.answers import ask_once
from extras.common.readings.nvml import GpuState
from extras.common.readings.snapshot import Managed
from machine.process import ProcessResult, run_with_timeout

_SMI_FIELDS = (
    "index",
    "name",
    "utilization.gpu",
    "memory.used",
    "memory.total",
    "driver_version",
    "compute_mode",
)
_LIBCUDA = (
    "import ctypes; ctypes.CDLL('libcuda.so.1');"
    "print([line.split()[-1] for line in open('/proc/self/maps') if 'libcuda.so' in line][0])"
)
_MAX_DRIVER_SECONDS = 8.0


def libcuda() -> tuple[str, str]:
    """The path of libcuda.so.1 as the loader finds it, or "" and the loader's error."""
    result = run_with_timeout((sys.executable, "-I", "-c", _LIBCUDA), _MAX_DRIVER_SECONDS)
    if result.code == 0:
        return result.out.strip(), ""
    return "", result.last_error.removeprefix("OSError: ")


def managed_gpus(
    programs: Mapping[str, str], loaded: bool, limit_seconds: float = _MAX_DRIVER_SECONDS
) -> Managed:
    """The GPUs by nvidia-smi, or by NVML without it. loaded: whether a driver is loaded."""
    if program := programs.get("nvidia-smi"):
        gpus, result = read_nvidia_smi(program, limit_seconds)
        output = " ".join(result.out.split())[:300] or result.last_error
        return Managed(gpus, "nvidia-smi", "" if gpus else output or "it lists no GPU")
    if not loaded:
        return Managed()
    reply = ask_once((sys.executable, "-m", "extras.common.readings.nvml"), limit_seconds)
    if reply.answer is None:
        return Managed((), "NVML", reply.last_error)
    states = [
        GpuState(**fields | {"capability": tuple(capability) if capability else None})
        for fields in reply.answer
        for capability in [fields["capability"]]
    ]
    return Managed(tuple(states), "NVML", "" if states else "it lists no GPU")


def read_nvidia_smi(program: str, limit_seconds: float) -> tuple[tuple[GpuState, ...], ProcessResult]:
    """The GPUs that nvidia-smi lists, and the program's result, which says why there is none."""
    # Drivers before 510 do not know compute_cap, and refuse the whole query with exit code 2.
    for fields in ((*_SMI_FIELDS, "compute_cap", "uuid"), _SMI_FIELDS):
        query = f"--query-gpu={','.join(fields)}"
        result = run_with_timeout((program, query, "--format=csv,noheader,nounits"), limit_seconds)
        if result.code != 2:
            break
    if result.code != 0:
        return (), result
    rows = [[cell.strip() for cell in line.split(",")] for line in result.out.splitlines()]
    states = [_gpu_state(row) for row in rows if len(row) >= len(_SMI_FIELDS) and row[0].isdigit()]
    return tuple(states), result


def _gpu_state(row: list[str]) -> GpuState:
    index, name, busy, used, total, driver, mode, *optional_fields = row
    major, _, minor = (optional_fields[0] if optional_fields else "").partition(".")
    return GpuState(
        index=int(index),
        name=name,
        busy_percent=_number(busy),
        used_bytes=_bytes(used),
        total_bytes=_bytes(total),
        capability=(int(major), int(minor)) if major.isdigit() and minor.isdigit() else None,
        driver_version=driver,
        compute_mode=mode,
        uuid=optional_fields[1] if len(optional_fields) > 1 else "",
    )


def _number(text: str) -> float | None:
    """None for a value that the GPU does not report: [N/A], [Not Supported]."""
    try:
        return float(text)
    except ValueError:
        return None


def _bytes(text: str) -> int | None:
    mebibytes = _number(text)
    return None if mebibytes is None else int(mebibytes * (1 << 20))
