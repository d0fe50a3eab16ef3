"""GPU utilization from NVML, else from nvidia-smi, else the reason why not."""

import shutil

from machine.devices import nvidia_smi
from machine.devices.nvml import GpuState, Nvml, NvmlError


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
            states, answer = nvidia_smi.read(self._program)
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
