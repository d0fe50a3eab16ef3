"""Child process that opens and runs an ONNX model: placement, times, memory.

Run by `ask_once`; ONNX Runtime's log goes to stderr, which the parent reads. A model that ends this
process ends nothing else.
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

from machine.devices.gpu_usage import GpuUsageReader
from machine.explain.inputs import arrays
from machine.onnxruntime.trial_child import load_libraries, placed, recording
from machine.process import reserve_stdout, write_json_line

_CPU = "CPUExecutionProvider"
# Runs of a second or two, at least once, and long enough for a GPU's own meter to see them.
_WARM_SECONDS, _LEAST_SECONDS, _MOST_RUNS, _LOOK_SECONDS = 1.5, 0.3, 50, 0.1


def main() -> int:
    """Writes the answer, faults too; always 0, but for a fault of its own."""
    request, answers = json.load(sys.stdin), reserve_stdout()
    write_json_line(answers, answer(request))
    return 0


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """{model, provider, options, plans} -> {version, import_bytes, load_seconds, loaded_bytes,
    peak_bytes, active, nodes, run}; where it failed {fault}, and what was found before."""
    found: dict[str, Any] = {}
    try:
        _explain(request, found)
    except Exception as error:  # ONNX Runtime's own kinds derive from Exception alone
        found["fault"] = f"{type(error).__name__}: {error}"
    return found


def _explain(request: dict[str, Any], found: dict[str, Any]) -> None:
    import numpy  # noqa: F401 - counted as imported, not as loaded
    import onnxruntime

    provider = request["provider"]
    load_libraries(onnxruntime, provider)
    found["version"] = onnxruntime.__version__
    found["import_bytes"] = _memory("VmRSS")
    with tempfile.TemporaryDirectory(prefix="sotaque-explain-") as folder:
        options = recording(onnxruntime)
        options.log_severity_level = 1  # tells each node that is forced onto the CPU
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.enable_profiling = bool(request["plans"])
        options.profile_file_prefix = str(Path(folder) / "profile")
        wished = [_CPU] if provider == _CPU else [(provider, request["options"]), _CPU]
        started = time.perf_counter()
        session = onnxruntime.InferenceSession(request["model"], options, wished, enable_fallback=0)
        found["load_seconds"] = time.perf_counter() - started
        found["loaded_bytes"] = _memory("VmRSS")
        found["active"] = session.get_providers()
        found["nodes"] = placed(session)
        if request["plans"]:
            found["run"] = _run(session, request["plans"])
            if found["nodes"] is None:  # before 1.24 the profile is the only one that tells
                found["nodes"] = counted(found["run"].get("executed", []))
    found["peak_bytes"] = _memory("VmHWM")


def _run(session: Any, plans: list[list[dict[str, Any]]]) -> dict[str, Any]:
    """{plan, executed, cold_seconds, warm_seconds, runs, activity}, or {fault} where no plan was
    taken."""
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
        # The profile ends here: writing it would be timed too.
        profile = Path(session.end_profiling()).read_text(encoding="utf-8")
        warm, activity = _watched(partial(_warm, session, inputs))
        return {
            "plan": plan, "executed": executed(json.loads(profile)), "cold_seconds": cold,
            "warm_seconds": statistics.median(warm), "runs": len(warm),
            "activity": activity,
        }  # fmt: skip
    return {"fault": faults[0]}


def _warm(session: Any, inputs: dict[str, Any]) -> list[float]:
    seconds: list[float] = []
    while not seconds or sum(seconds) < (
        _WARM_SECONDS if len(seconds) < _MOST_RUNS else _LEAST_SECONDS
    ):
        started = time.perf_counter()
        session.run(None, inputs)
        seconds.append(time.perf_counter() - started)
    return seconds


def _watched(work: Callable[[], list[float]]) -> tuple[list[float], dict[str, Any]]:
    """What `work` returns, and what was busy meanwhile: {cpu_percent: 100 is one core, gpus:
    {name: {busy_percent, used_bytes}}, fault}. GPUs are read ten times a second in a thread."""
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
    found = work()
    spent, seconds = time.process_time() - spent, time.perf_counter() - started
    look()
    ended.set()
    thread.join()
    reader.close()
    return found, {"cpu_percent": 100 * spent / seconds, "gpus": gpus, "fault": reader.fault}


def executed(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A profile -> for each provider and operator of the last run {provider, operator, times,
    seconds, largest}; largest: values in the largest input or output, weights too."""
    last = max((event["ts"] for event in events if event["name"] == "model_run"), default=0)
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for event in events:
        details = event.get("args", {})
        if event.get("cat") != "Node" or "provider" not in details or event["ts"] < last:
            continue
        key = details["provider"], details["op_name"]
        row = found.setdefault(key, {"times": 0, "seconds": 0.0, "largest": 0})
        row["times"] += 1
        row["seconds"] += event["dur"] / 1e6
        for shapes in (details.get("input_type_shape", ()), details.get("output_type_shape", ())):
            sizes = [math.prod(shape) for one in shapes for shape in one.values()]
            row["largest"] = max([row["largest"], *sizes])
    return [{"provider": a, "operator": b, **row} for (a, b), row in found.items()]


def counted(rows: list[dict[str, Any]]) -> dict[str, dict[str, int]] | None:
    """Rows of `executed` -> provider -> operator -> number of nodes, as they ran."""
    found: dict[str, dict[str, int]] = {}
    for row in rows:
        found.setdefault(row["provider"], {})[row["operator"]] = row["times"]
    return found or None


def _memory(name: str) -> int:
    """VmRSS or VmHWM of this process in bytes; 0 where the system does not tell."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    return 0


if __name__ == "__main__":
    sys.exit(main())
