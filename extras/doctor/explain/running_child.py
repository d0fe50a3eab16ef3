"""Child process that opens and runs an ONNX model: placement, times and memory.

The parent runs it with `ask_once` and reads ONNX Runtime's log from stderr. A model that crashes
ends only this process.
"""

import json
import math
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from extras.common.onnxruntime.node_placement import load_libraries, node_counts, options_recording_placement
from extras.common.readings.nvml import GpuUsageReader
from extras.doctor.explain.inputs import Filling, make_arrays
from machine.onnxruntime import import_quietly
from machine.process import reserve_stdout, write_json_line

if TYPE_CHECKING:
    import numpy as np

    from extras.common.onnxruntime.types import Session

_CPU_PROVIDER = "CPUExecutionProvider"
# Runs for a second or two, at least once, and long enough for a GPU's utilization to show it.
_WARM_SECONDS, _MIN_SECONDS, _MAX_RUNS, _LOOK_SECONDS = 1.5, 0.3, 50, 0.1


class Request(TypedDict):
    """What to open and run. plans: the inputs to try; empty to open the model only."""

    model: str
    provider: str
    options: dict[str, str]
    plans: list[list[Filling]]


class OperatorRow(TypedDict):
    """An operator of the last run. times: how often it ran; largest: values in its largest input or
    output, including weights."""

    provider: str
    operator: str
    times: int
    seconds: float
    largest: int


class GpuActivity(TypedDict):
    """The largest readings of a GPU."""

    busy_percent: float | None
    used_bytes: int


class Activity(TypedDict):
    """Usage while a model runs. cpu_percent: 100 is one core; gpus: by number and name."""

    cpu_percent: float
    gpus: dict[str, GpuActivity]
    fault: str


def main() -> int:
    """Writes the answer, which holds the model's errors too, and returns 0."""
    request, answers = json.load(sys.stdin), reserve_stdout()
    write_json_line(answers, answer(request))
    return 0


def answer(request: Request) -> dict[str, object]:
    """Opens and runs one model.

    Returns:
        {version, import_bytes, load_seconds, loaded_bytes, peak_bytes, active, nodes, run}; after
        an error {fault}, and the values up to there.
    """
    result: dict[str, object] = {}
    try:
        _open_and_run(request, result)
    except Exception as error:  # ONNX Runtime's own errors derive directly from Exception
        result["fault"] = f"{type(error).__name__}: {error}"
    return result


def _open_and_run(request: Request, result: dict[str, object]) -> None:
    import numpy  # noqa: F401 - counted as imported, not as loaded

    onnxruntime = import_quietly()

    provider = request["provider"]
    load_libraries(onnxruntime, provider)
    result["version"] = onnxruntime.__version__
    result["import_bytes"] = _memory_bytes("VmRSS")
    with tempfile.TemporaryDirectory(prefix="sotaque-explain-") as folder:
        options = options_recording_placement(onnxruntime)
        options.log_severity_level = 1  # logs each node that is forced onto the CPU
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.enable_profiling = bool(request["plans"])
        options.profile_file_prefix = str(Path(folder) / "profile")
        providers = (
            [_CPU_PROVIDER] if provider == _CPU_PROVIDER else [(provider, request["options"]), _CPU_PROVIDER]
        )
        started = time.perf_counter()
        session = onnxruntime.InferenceSession(request["model"], options, providers, enable_fallback=0)
        result["load_seconds"] = time.perf_counter() - started
        result["loaded_bytes"] = _memory_bytes("VmRSS")
        result["active"] = session.get_providers()
        result["nodes"] = node_counts(session)
        if request["plans"]:
            run, rows = _run(session, request["plans"])
            result["run"] = run
            if result["nodes"] is None:  # before 1.24 only the profile has it
                result["nodes"] = counts_of_rows(rows)
    result["peak_bytes"] = _memory_bytes("VmHWM")


def _run(session: "Session", plans: list[list[Filling]]) -> tuple[dict[str, object], list[OperatorRow]]:
    """{plan, executed, cold_seconds, warm_seconds, runs, activity}, or {fault} if the model accepts
    no plan; and what `operator_rows` holds."""
    faults = []
    for plan in plans:
        inputs = make_arrays(plan)
        started = time.perf_counter()
        try:
            session.run(None, inputs)
        except Exception as error:
            faults.append(str(error))
            continue
        cold_seconds = time.perf_counter() - started
        session.run(None, inputs)
        # The profile ends here, or writing it would be timed too.
        profile = Path(session.end_profiling()).read_text(encoding="utf-8")
        warm_seconds, activity = _run_watched(partial(_time_runs, session, inputs))
        rows = operator_rows(json.loads(profile))
        return {
            "plan": plan,
            "executed": rows,
            "cold_seconds": cold_seconds,
            "warm_seconds": statistics.median(warm_seconds),
            "runs": len(warm_seconds),
            "activity": activity,
        }, rows
    return {"fault": faults[0]}, []


def _time_runs(session: "Session", inputs: "dict[str, np.ndarray]") -> list[float]:
    seconds: list[float] = []
    while not seconds or sum(seconds) < (_WARM_SECONDS if len(seconds) < _MAX_RUNS else _MIN_SECONDS):
        started = time.perf_counter()
        session.run(None, inputs)
        seconds.append(time.perf_counter() - started)
    return seconds


def _run_watched(work: Callable[[], list[float]]) -> tuple[list[float], Activity]:
    """Runs `work` while a thread reads the GPUs ten times a second.

    Returns what `work` returns, and the usage.
    """
    reader, ended = GpuUsageReader(), threading.Event()
    gpus: dict[str, GpuActivity] = {}

    def read_gpus() -> None:
        for gpu in reader.read():
            peak = gpus.setdefault(f"{gpu.index}: {gpu.name}", {"busy_percent": None, "used_bytes": 0})
            if gpu.busy_percent is not None:
                peak["busy_percent"] = max(peak["busy_percent"] or 0.0, gpu.busy_percent)
            peak["used_bytes"] = max(peak["used_bytes"], gpu.used_bytes or 0)

    def watch() -> None:
        while not ended.wait(_LOOK_SECONDS):
            read_gpus()

    read_gpus()
    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    started, spent = time.perf_counter(), time.process_time()
    result = work()
    spent, seconds = time.process_time() - spent, time.perf_counter() - started
    read_gpus()
    ended.set()
    thread.join()
    reader.close()
    return result, {"cpu_percent": 100 * spent / seconds, "gpus": gpus, "fault": reader.fault}


def operator_rows(events: list[dict[str, Any]]) -> list[OperatorRow]:
    """The last run of a profile, for each provider and operator."""
    last = max((event["ts"] for event in events if event["name"] == "model_run"), default=0)
    totals: dict[tuple[str, str], OperatorRow] = {}
    for event in events:
        details = event.get("args", {})
        if event.get("cat") != "Node" or "provider" not in details or event["ts"] < last:
            continue
        provider, operator = details["provider"], details["op_name"]
        row = totals.setdefault(
            (provider, operator),
            {"provider": provider, "operator": operator, "times": 0, "seconds": 0.0, "largest": 0},
        )
        row["times"] += 1
        row["seconds"] += event["dur"] / 1e6
        for shapes in (details.get("input_type_shape", ()), details.get("output_type_shape", ())):
            sizes = [math.prod(shape) for shape_by_type in shapes for shape in shape_by_type.values()]
            row["largest"] = max([row["largest"], *sizes])
    return list(totals.values())


def counts_of_rows(rows: list[OperatorRow]) -> dict[str, dict[str, int]] | None:
    """Rows of `operator_rows` as provider -> operator -> number of nodes."""
    counts: dict[str, dict[str, int]] = {}
    for row in rows:
        counts.setdefault(row["provider"], {})[row["operator"]] = row["times"]
    return counts or None


def _memory_bytes(name: str) -> int:
    """VmRSS or VmHWM of this process in bytes; 0 if unknown."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    return 0


if __name__ == "__main__":
    sys.exit(main())
