"""`python -m xtts monitor`: GPU, CPU and RAM over time, on the console and as CSV.

The GPU's utilization shows why a run is slow: a GPU that is busy for a tenth of the time waits for
something, and the summary at the end says so.
"""

import contextlib
import csv
import signal
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from extras.common.readings.nvml import GpuUsageReader
from extras.doctor.usage import Usage, UsageMeter
from machine.errors import SotaqueError
from machine.text import printable

PROC_FOLDER = Path("/proc")
_HEADER_EVERY = 20
# Below this utilization a training GPU waits for more than half of the time.
_IDLE_PERCENT = 30.0
_COMMON_COLUMNS = (
    "time",
    "seconds",
    "cpu_percent",
    "memory_used_bytes",
    "memory_total_bytes",
    "trainer_cpu_percent",
    "trainer_memory_bytes",
)
_GPU_COLUMNS = ("busy_percent", "memory_used_bytes", "memory_total_bytes")


def run(log: Path | None, duration_seconds: float | None, interval_seconds: float, output_dir: Path) -> int:
    """Prints readings for `duration_seconds`, or until Ctrl-C.

    Raises:
        SotaqueError: The log cannot be written.
    """
    gpus = GpuUsageReader()
    meter = UsageMeter(gpus.read, lambda: find_trainer(output_dir))
    readings: list[Usage] = []
    reported_fault = ""
    # `timeout 60 python -m xtts monitor` must end with a summary too. And a shell that starts a
    # program in the background has it ignore SIGINT, which Python does not change.
    stop_signals = (signal.SIGTERM, signal.SIGINT)
    earlier_handlers = [signal.signal(stop, signal.default_int_handler) for stop in stop_signals]
    try:
        with _log(log) as write:
            for seconds in _ticks(duration_seconds, interval_seconds):
                usage = meter.read()
                if gpus.fault and gpus.fault != reported_fault:
                    reported_fault = gpus.fault
                    _print(f"No GPU can be read: {reported_fault}.")
                if len(readings) % _HEADER_EVERY == 0:
                    _print(_header(usage))
                readings.append(usage)
                # The log first: a line that was shown is in the log even if the user stops it then.
                write(seconds, usage)
                _print(usage_line(usage))
    except KeyboardInterrupt:
        _print("")
    finally:
        for stop, handler in zip(stop_signals, earlier_handlers, strict=True):
            signal.signal(stop, handler)
        gpus.close()
    if readings:
        _print(summary(readings))
    return 0


def find_trainer(output_dir: Path, proc: Path = PROC_FOLDER) -> int | None:
    """The process that trains in OUTPUT_DIR, by the process ID in its lock file; None if none."""
    try:
        pid = int((output_dir / ".lock").read_text())
        command = (proc / str(pid) / "cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return None
    # The system may have given that process ID to another program since.
    is_trainer = b"train" in command or any(word.endswith(b"/train/__main__.py") for word in command)
    return pid if is_trainer else None


def usage_line(usage: Usage) -> str:
    """One reading as a line."""
    cells = [datetime.now().strftime("%H:%M:%S")]
    for gpu in usage.gpus:
        cells.append(f"{_percent(gpu.busy_percent)} {_amount(gpu.used_bytes, gpu.total_bytes)}")
    cells.append(_percent(usage.cpu_percent))
    cells.append(_amount(usage.memory_used_bytes, usage.memory_total_bytes))
    trainer = f"{_percent(usage.trainer_cpu_percent)} {_gigabytes(usage.trainer_memory_bytes)} GB"
    cells.append("-" if usage.trainer_memory_bytes is None else trainer)
    return "  ".join(cells)


def summary(readings: list[Usage]) -> str:
    """Means and peaks of all readings, and the meaning of a low utilization."""
    parts: list[str] = []
    highest_busy: float | None = None
    for index, gpu in enumerate(readings[-1].gpus):
        states = [usage.gpus[index] for usage in readings if index < len(usage.gpus)]
        busy = _mean([state.busy_percent for state in states])
        highest_busy = busy if highest_busy is None else max(highest_busy, busy or 0.0)
        peak_bytes = max((state.used_bytes or 0 for state in states), default=0)
        parts.append(f"{gpu.name} busy {_percent(busy).strip()}, at most {_gigabytes(peak_bytes)} GB")
    cpu = _mean([usage.cpu_percent for usage in readings])
    peak_bytes = max((usage.memory_used_bytes or 0 for usage in readings), default=0)
    parts.append(f"CPU {_percent(cpu).strip()}, RAM at most {_gigabytes(peak_bytes)} GB")
    trained = [usage.trainer_memory_bytes for usage in readings if usage.trainer_memory_bytes]
    if trained:
        parts.append(f"the trainer at most {_gigabytes(max(trained))} GB")
    text = f"On average: {'; '.join(parts)}."
    if trained and highest_busy is not None and highest_busy < _IDLE_PERCENT:
        text += (
            "\nThe GPU is idle most of the time. See train/data_wait_share in TensorBoard: near 1 "
            "it waits for data; near 0, raise BATCH_SECONDS."
        )
    return text


def _header(usage: Usage) -> str:
    gpus = [f"{f'GPU {gpu.index}: busy, GB':18}" for gpu in usage.gpus]
    return "  ".join(["time    ", *gpus, "CPU  ", "RAM, GB    ", "trainer (100 % is one core)"])


def _ticks(duration: float | None, interval: float) -> Iterator[float]:
    """Waits for the next interval and yields the seconds since the start."""
    started = time.monotonic()
    count = 0
    while duration is None or (count + 1) * interval <= duration + 1e-6:
        count += 1
        # A reading that took longer than an interval skips the intervals that have passed.
        count = max(count, int((time.monotonic() - started) / interval))
        time.sleep(max(0.0, started + count * interval - time.monotonic()))
        yield time.monotonic() - started


@contextlib.contextmanager
def _log(path: Path | None) -> Iterator[Callable[[float, Usage], None]]:
    """Writes a CSV file, flushed after every line; an existing file is appended to."""
    if path is None:
        yield lambda _seconds, _usage: None
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+", newline="", encoding="utf-8") as file:
            yield _writer(path, file)
    except BrokenPipeError:
        raise  # stdout is closed, not the log
    except OSError as error:
        raise SotaqueError(f"--log {path} cannot be written ({error.strerror}).") from error


def _writer(path: Path, file: IO[str]) -> Callable[[float, Usage], None]:
    columns: list[str] = []
    rows = csv.writer(file)

    def write(seconds: float, usage: Usage) -> None:
        if not columns:
            columns.extend(_columns(len(usage.gpus)))
            file.seek(0)
            earlier_columns = file.readline().strip().split(",")
            if earlier_columns == [""]:
                rows.writerow(columns)
            elif earlier_columns != columns:
                raise SotaqueError(
                    f"--log {path} has other columns than this monitor writes; name another file."
                )
        rows.writerow(_row(seconds, usage, len(columns)))
        file.flush()

    return write


def _columns(num_gpus: int) -> list[str]:
    return [*_COMMON_COLUMNS, *(f"gpu{index}_{name}" for index in range(num_gpus) for name in _GPU_COLUMNS)]


def _row(seconds: float, usage: Usage, width: int) -> list[object]:
    fixed = [getattr(usage, name) for name in _COMMON_COLUMNS[2:]]
    gpus = [value for gpu in usage.gpus for value in (gpu.busy_percent, gpu.used_bytes, gpu.total_bytes)]
    values = [datetime.now(UTC).isoformat(timespec="milliseconds"), seconds, *fixed, *gpus]
    plain = [
        "" if value is None else round(value, 2) if isinstance(value, float) else value for value in values
    ]
    return (plain + [""] * width)[:width]


def _print(text: str) -> None:
    # GPU names and error texts come from drivers and may hold control characters.
    sys.stdout.write(printable(text) + "\n")
    sys.stdout.flush()


def _mean(values: list[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return sum(present) / len(present) if present else None


def _percent(value: float | None) -> str:
    return "  ? %" if value is None else f"{value:3.0f} %"


def _amount(used: int | None, total: int | None) -> str:
    return f"{_gigabytes(used):>5}/{_gigabytes(total):<5}"


def _gigabytes(num_bytes: int | None) -> str:
    return "?" if num_bytes is None else f"{num_bytes / 1e9:.1f}"
