"""Logs the GPU, CPU and RAM usage and the MFU of a run with its losses (`USAGE`).

A thread takes the readings, so a driver that hangs loses points of the curves but delays nothing.
"""

import logging
import os
import sys
import threading
from collections import defaultdict
from collections.abc import Callable

from extras.common.readings.nvml import GpuState, GpuUsageReader, as_cuda_counts
from extras.doctor.flops import of_steps as of_steps
from extras.doctor.usage import Usage, UsageMeter

log = logging.getLogger("train")

# A reading takes 5 ms of a core with 80 processes, most of it for /proc.
READ_SECONDS = 2.0


class MachineMetrics:
    """`with` starts the thread and ends it. meter: opens the readings; it is called in the thread,
    because opening a broken driver may hang too."""

    def __init__(
        self, meter: Callable[[], Callable[[], Usage]] | None = None, every_seconds: float = READ_SECONDS
    ) -> None:
        self._meter = meter or _this_machine
        self._every_seconds = every_seconds
        self._figures: list[dict[str, float]] = []
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._read_repeatedly, name="machine", daemon=True)

    def __enter__(self) -> "MachineMetrics":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        # A thread that hangs in a driver's call is abandoned; it ends with the process.
        self._thread.join(0.5)

    def take(self) -> dict[str, float]:
        """The mean of every figure since the last call; empty if nothing was read. Does not
        wait."""
        with self._lock:
            figures_since, self._figures = self._figures, []
        values: dict[str, list[float]] = defaultdict(list)
        for figures in figures_since:
            for name, value in figures.items():
                values[name].append(value)
        return {name: sum(readings) / len(readings) for name, readings in values.items()}

    def _read_repeatedly(self) -> None:
        try:
            read = self._meter()
            while not self._ended.wait(self._every_seconds):
                figures = figures_of(read())
                with self._lock:
                    # `take` is not called while a sample is spoken; keeping an hour is enough.
                    self._figures = [*self._figures[-1800:], figures]
        except Exception as error:
            log.warning("GPU, CPU and RAM usage are no longer logged (%s). Training continues.", error)


def figures_of(usage: Usage) -> dict[str, float]:
    """The figures by their names under machine/ in TensorBoard, without unknown ones."""
    figures_by_name: dict[str, float | None] = {
        "cpu_percent": usage.cpu_percent,
        "memory_bytes": usage.memory_used_bytes,
        "trainer_cpu_percent": usage.trainer_cpu_percent,
        "trainer_memory_bytes": usage.trainer_memory_bytes,
    }
    for gpu in usage.gpus:
        figures_by_name[f"gpu{gpu.index}_busy_percent"] = gpu.busy_percent
        figures_by_name[f"gpu{gpu.index}_memory_bytes"] = gpu.used_bytes
    return {name: float(value) for name, value in figures_by_name.items() if value is not None}


def _this_machine() -> Callable[[], Usage]:
    reader = GpuUsageReader()

    def gpus() -> tuple[GpuState, ...]:
        # gpu0 is this run's cuda:0, whichever card CUDA_VISIBLE_DEVICES makes that.
        return as_cuda_counts(reader.read(), _cuda_uuids())

    return UsageMeter(gpus, os.getpid).read


def _cuda_uuids() -> list[str]:
    """The UUIDs of cuda:0, cuda:1, … of this process; empty before it uses CUDA, because asking
    would initialise CUDA."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return []
    count = torch.cuda.device_count()
    return [str(torch.cuda.get_device_properties(index).uuid) for index in range(count)]
