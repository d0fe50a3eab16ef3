"""Reads GPU utilization and memory from NVML, or from nvidia-smi where NVML is missing."""

import shutil

from machine.devices.nvml import GpuState, Nvml, NvmlError
from machine.process import ProcessResult, run_with_timeout

LIMIT_SECONDS = 8.0
_FIELDS = ("index", "name", "utilization.gpu", "memory.used", "memory.total", "driver_version",
           "compute_mode")  # fmt: skip
_MIB = 1 << 20


class GpuUsageReader:
    """Reads the state of every GPU.

    Args:
        path: Where to look for nvidia-smi, in the form of $PATH; None is $PATH itself.

    Attributes:
        source: "NVML" or "nvidia-smi"; "" if neither works.
        fault: Why there is no source; "" while there is one.
    """

    def __init__(self, path: str | None = None) -> None:
        self.source, self.fault = "", ""
        self._nvml: Nvml | None = None
        self._program: str | None = None
        try:
            self._nvml = Nvml()
            self.source = "NVML"
        except NvmlError as error:
            self._program = shutil.which("nvidia-smi", path=path)
            self.source = "nvidia-smi" if self._program else ""
            self.fault = "" if self._program else f"{error}, and no nvidia-smi on PATH"

    def read(self) -> tuple[GpuState, ...]:
        """The state of every GPU. Once the source fails it sets `fault` and returns none."""
        if self._nvml:
            try:
                return self._nvml.read()
            except NvmlError as error:
                self._lose(str(error))
        elif self._program:
            states, answer = read_nvidia_smi(self._program)
            if states:
                return states
            self._lose(" ".join(answer.out.split())[:200] or answer.last_error or "no GPU listed")
        return ()

    def close(self) -> None:
        """Releases the driver."""
        if self._nvml:
            self._nvml.close()

    def _lose(self, why: str) -> None:
        self.fault = f"{self.source} failed: {why}"
        self._nvml, self._program, self.source = None, None, ""


def read_nvidia_smi(
    program: str = "nvidia-smi", limit_seconds: float = LIMIT_SECONDS
) -> tuple[tuple[GpuState, ...], ProcessResult]:
    """The GPUs that nvidia-smi lists, and the program's result, which says why there is none."""
    # Drivers before 510 do not know compute_cap and refuse the whole query.
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
    """None for a value that the GPU does not report: [N/A], [Not Supported]."""
    try:
        return float(text)
    except ValueError:
        return None


def _bytes(text: str) -> int | None:
    mebibytes = _number(text)
    return None if mebibytes is None else int(mebibytes * _MIB)
