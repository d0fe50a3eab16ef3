"""GPU utilization from the program nvidia-smi, where NVML cannot be loaded."""

from machine.devices.nvml import GpuState
from machine.process import ProcessResult, run_with_timeout

LIMIT_SECONDS = 8.0
_FIELDS = ("index", "name", "utilization.gpu", "memory.used", "memory.total", "driver_version",
           "compute_mode")  # fmt: skip
_MIB = 1 << 20


def read(
    program: str = "nvidia-smi", limit_seconds: float = LIMIT_SECONDS
) -> tuple[tuple[GpuState, ...], ProcessResult]:
    """Every GPU that it lists, and its answer; no GPU where it failed, and the answer says why."""
    # Drivers before 510 do not know compute_cap and refuse the whole question.
    for fields in ((*_FIELDS, "compute_cap", "uuid"), _FIELDS):
        query = f"--query-gpu={','.join(fields)}"
        answer = run_with_timeout((program, query, "--format=csv,noheader,nounits"), limit_seconds)
        if answer.code != 2:
            break
    if answer.code != 0:
        return (), answer
    rows = [[cell.strip() for cell in line.split(",")] for line in answer.out.splitlines()]
    states = [_state(row) for row in rows if len(row) >= len(_FIELDS) and row[0].isdigit()]
    return tuple(states), answer


def _state(row: list[str]) -> GpuState:
    index, name, busy, used, total, driver, mode, *more = row
    major, _, minor = (more[0] if more else "").partition(".")
    return GpuState(
        index=int(index),
        name=name,
        busy_percent=_number(busy),
        used_bytes=_bytes(used),
        total_bytes=_bytes(total),
        capability=(int(major), int(minor)) if major.isdigit() and minor.isdigit() else None,
        driver_version=driver,
        compute_mode=mode,
        uuid=more[1] if len(more) > 1 else "",
    )


def _number(text: str) -> float | None:
    """None for what it writes where the GPU does not tell: [N/A], [Not Supported]."""
    try:
        return float(text)
    except ValueError:
        return None


def _bytes(text: str) -> int | None:
    mebibytes = _number(text)
    return None if mebibytes is None else int(mebibytes * _MIB)
