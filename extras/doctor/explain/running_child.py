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
from typing import Any

from extras.common.onnxruntime.trial_child import load_libraries, placed, recording
from extras.common.readings.nvml import GpuUsageReader
from extras.doctor.explain.inputs import arrays
from machine.onnxruntime import import_quietly
from machine.process import reserve_stdout, write_json_line

_CPU = "CPUExecutionProvider"
# Runs for a second or two, at least once, and long enough for a GPU's utilization to show it.
_WARM_SECONDS, _LEAST_SECONDS, _MOST_RUNS, _LOOK_SECONDS = 1.5, 0.3, 50, 0.1


def main() -> int:
    """Writes the answer, which holds the model's errors too, and returns 0."""
    request, answers = json.load(sys.stdin), reserve_stdout()
    write_json_line(answers, answer(request))
    return 0


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Opens and runs one model.

    Args:
        request: {model, provider, options, plans}.

    Returns:
        {version, import_bytes, load_seconds, loaded_bytes, peak_bytes, active, nodes, run}; after
        an error {fault}, and the values up to there.
    """
    result: dict[str, Any] = {}
    try:
        _explain(request, result)
    except Exception as error:  # ONNX Runtime's own errors derive directly from Exception
        result["fault"] = f"{type(error).__name__}: {error}"
    return result


def _explain(request: dict[str, Any], result: dict[str, Any]) -> None:
    import numpy  # noqa: F401 - counted as imported, not as loaded

    onnxruntime = import_quietly()

    provider = request["provider"]
    load_libraries(onnxruntime, provider)
    result["version"] = onnxruntime.__version__
    result["import_bytes"] = _memory("VmRSS")
    with tempfile.TemporaryDirectory(prefix="sotaque-explain-") as folder:
        options = recording(onnxruntime)
        options.log_severity_level = 1  # logs each node that is forced onto the CPU
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.enable_profiling = bool(request["plans"])
        options.profile_file_prefix = str(Path(folder) / "profile")
        wished = [_CPU] if provider == _CPU else [(provider, request["options"]), _CPU]
        started = time.perf_counter()
        session = onnxruntime.InferenceSession(request["model"], options, wished, enable_fallback=0)
        result["load_seconds"] = time.perf_counter() - started
        result["loaded_bytes"] = _memory("VmRSS")
        result["active"] = session.get_providers()
        result["nodes"] = placed(session)
        if request["plans"]:
            result["run"] = _run(session, request["plans"])
            if result["nodes"] is None:  # before 1.24 only the profile has it
                result["nodes"] = counted(result["run"].get("executed", []))
    result["peak_bytes"] = _memory("VmHWM")


def _run(session: Any, plans: list[list[dict[str, Any]]]) -> dict[str, Any]:
    """{plan, executed, cold_seconds, warm_seconds, runs, activity}; {fault} if the model accepts
    no plan."""
    faults = []
    for plan in plans:
        inputs = arrays(plan)
        started = time.perf_counter()
        try:
            session.run(None, inputs)
        except Exception as error:
            faults.append(str(error))
            continue
        cold = time.perf_counter() - started
        session.run(None, inputs)
        # The profile ends here, or writing it would be timed too.
        profile = Path(session.end_profiling()).read_text(encoding="utf-8")
        warm, activity = _watched(partial(_warm, session, inputs))
        return {
            "plan": plan,
            "executed": executed(json.loads(profile)),
            "cold_seconds": cold,
            "warm_seconds": statistics.median(warm),
            "runs": len(warm),
            "activity": activity,
        }
    return {"fault": faults[0]}


def _warm(session: Any, inputs: dict[str, Any]) -> list[float]:
    seconds: list[float] = []
    while not seconds or sum(seconds) < (_WARM_SECONDS if len(seconds) < _MOST_RUNS else _LEAST_SECONDS):
        started = time.perf_counter()
        session.run(None, inputs)
        seconds.append(time.perf_counter() - started)
    return seconds


def _watched(work: Callable[[], list[float]]) -> tuple[list[float], dict[str, Any]]:
    """Runs `work` while a thread reads the GPUs ten times a second.

    Returns:
        What `work` returns, and {cpu_percent (100 is one core), gpus: {name: {busy_percent,
        used_bytes}}, fault}.
    """
    reader, ended = GpuUsageReader(), threading.Event()
    gpus: dict[str, dict[str, Any]] = {}

    def look() -> None:
        for gpu in reader.read():
            empty = {"busy_percent": None, "used_bytes": 0}
            seen = gpus.setdefault(f"{gpu.index}: {gpu.name}", empty)
            if gpu.busy_percent is not None:
                seen["busy_percent"] = max(seen["busy_percent"] or 0.0, gpu.busy_percent)
            seen["used_bytes"] = max(seen["used_bytes"], gpu.used_bytes or 0)

    def watch() -> None:
        while not ended.wait(_LOOK_SECONDS):
            look()

    look()
    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    started, spent = time.perf_counter(), time.process_time()
    result = work()
    spent, seconds = time.process_time() - spent, time.perf_counter() - started
    look()
    ended.set()
    thread.join()
    reader.close()
    return result, {"cpu_percent": 100 * spent / seconds, "gpus": gpus, "fault": reader.fault}


def executed(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The last run of a profile, for each provider and operator: {provider, operator, times,
    seconds, largest}. largest: values in the largest input or output, including weights."""
    last = max((event["ts"] for event in events if event["name"] == "model_run"), default=0)
    totals: dict[tuple[str, str], dict[str, Any]] = {}
    for event in events:
        details = event.get("args", {})
        if event.get("cat") != "Node" or "provider" not in details or event["ts"] < last:
            continue
        key = details["provider"], details["op_name"]
        row = totals.setdefault(key, {"times": 0, "seconds": 0.0, "largest": 0})
        row["times"] += 1
        row["seconds"] += event["dur"] / 1e6
        for shapes in (details.get("input_type_shape", ()), details.get("output_type_shape", ())):
            sizes = [math.prod(shape) for shape_by_type in shapes for shape in shape_by_type.values()]
            row["largest"] = max([row["largest"], *sizes])
    return [{"provider": a, "operator": b, **row} for (a, b), row in totals.items()]


def counted(rows: list[dict[str, Any]]) -> dict[str, dict[str, int]] | None:
    """Rows of `executed` as provider -> operator -> number of nodes."""
    counts: dict[str, dict[str, int]] = {}
    for row in rows:
        counts.setdefault(row["provider"], {})[row["operator"]] = row["times"]
    return counts or None


def _memory(name: str) -> int:
    """VmRSS or VmHWM of this process in bytes; 0 if unknown."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    return 0


if __name__ == "__main__":
    sys.exit(main())
