"""How busy GPUs are: from NVML, else from the program nvidia-smi, else the reason why not."""

import shutil

from machine.devices.nvml import GpuState, Nvml, NvmlError
from machine.process import ProcessResult, run_with_timeout

LIMIT_SECONDS = 8.0
_FIELDS = ("index", "name", "utilization.gpu", "memory.used", "memory.total", "driver_version",
           "compute_mode")  # fmt: skip
_MIB = 1 << 20


class GpuUsageReader:
    """source: NVML, nvidia-smi, or "" when there is nothing to read, and then `fault` says why.

    path: as $PATH, where nvidia-smi is looked for.
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
        """Every GPU; none, and `fault` set, once the source has failed: it is not asked again."""
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
