"""Reports an ONNX model as text or JSON, and ONNX Runtime's load errors as one sentence."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from extras.common.onnxruntime.operators import is_heavy
from extras.common.onnxruntime.placement import SessionStatus, explain_command
from extras.common.onnxruntime.providers import CPU
from extras.doctor.explain.cpu_operators import (
    Judgement,
    forecast_placement,
    judge_operator,
    placement_verdict,
)
from extras.doctor.explain.graph import ModelGraph
from machine import commands
from machine.text import size_words, wrap

if TYPE_CHECKING:
    from extras.doctor.explain.inputs import Filling
    from extras.doctor.explain.running_child import Activity, OperatorRow

# A JSON object: the child's answer, `facts`, or an input or output in it.
Report = Mapping[str, Any]
SCHEMA = 1
_LABELS = {"yes": "ok", "no": "NO", "unclear": "?"}
_COPY_WARNING = re.compile(r"(\d+) Memcpy nodes are added to the graph")
_FORCED_TO_CPU_NODE = re.compile(r"Force fallback to CPU execution for node: (.*?) because")


def facts(graph: ModelGraph, status: SessionStatus, child: Report, log: str) -> dict[str, object]:
    """The whole report as JSON values: names are stable, texts may change.

    Args:
        graph: The model.
        status: Where it runs.
        child: The child's answer (`running_child`).
        log: The child's stderr.

    Returns:
        Among others: nodes, provider -> operator -> count; copies, nodes that ONNX Runtime inserted
        to copy values between memories; forced_to_cpu, nodes that it moved to the CPU because they
        are faster there; on_cpu, a judgement of every operator there.
    """
    run, nodes = child.get("run"), child["nodes"]
    executed = run["executed"] if run else []
    seconds: Counter[str] = Counter()
    for row in executed:
        seconds[row["provider"]] += row["seconds"]
    if nodes is None:  # as the file has them
        operators: Counter[str] = Counter()
        for (_, name), number in graph.operators.items():
            operators[name] += number
    else:
        operators = sum(map(Counter, nodes.values()), Counter())
    judgements = _judge_cpu_operators(graph, nodes, executed)
    return {
        "schema": SCHEMA,
        "model": str(graph.path),
        "file_bytes": graph.file_bytes,
        "opsets": graph.opsets,
        "producer": graph.producer,
        "onnxruntime": child["version"],
        "status": status.as_dict(),
        "normal": placement_verdict(status, judgements),
        "nodes": nodes,
        "copies": count_copies(log, executed),
        "forced_to_cpu": _FORCED_TO_CPU_NODE.findall(log),
        "on_cpu": [judgement._asdict() for judgement in judgements],
        "on_a_gpu": forecast_placement(operators),
        "inputs": [asdict(value) for value in graph.inputs],
        "outputs": [asdict(value) for value in graph.outputs],
        "load_seconds": child["load_seconds"],
        "memory": {name: child[name] for name in ("import_bytes", "loaded_bytes", "peak_bytes")},
        "run": run,
        "seconds_by_provider": seconds,
    }


def count_copies(log: str, executed: "Sequence[OperatorRow]") -> int:
    """The number of copies, from ONNX Runtime's warnings or else from the executed nodes."""
    copies_in_log = sum(int(number) for number in _COPY_WARNING.findall(log))
    copying = ("MemcpyToHost", "MemcpyFromHost")
    return copies_in_log or sum(row["times"] for row in executed if row["operator"] in copying)


def _judge_cpu_operators(
    graph: ModelGraph, nodes: Mapping[str, Mapping[str, int]] | None, executed: "Sequence[OperatorRow]"
) -> list[Judgement]:
    """Judges every operator on the CPU, abnormal ones first; [] if everything is on the CPU."""
    if not nodes or not nodes.keys() - {CPU}:
        return []
    domains = {name: domain for domain, name in graph.operators}
    ran = {row["operator"]: row for row in executed if row["provider"] == CPU}
    judgements = []
    for name, number in nodes.get(CPU, {}).items():
        # A node placed as Conv may have run fused with the next one.
        row = ran.get(name) or ran.get(f"Fused{name}")
        largest, seconds = (row["largest"], row["seconds"]) if row else (None, 0.0)
        normal, why = judge_operator(name, largest, domains.get(name, ""))
        judgements.append(Judgement(name, number, normal, why, largest, seconds))
    order = ("no", "unclear", "yes")
    return sorted(
        judgements,
        key=lambda judgement: (order.index(judgement.normal), -judgement.nodes, judgement.operator),
    )


def as_text(summary: Report) -> str:
    """`facts` as text: where the model runs and whether that is normal, then the details."""
    status, run = summary["status"], summary["run"]
    exporter = f", exported by {summary['producer']}" if summary["producer"] else ""
    lines = [
        f"{Path(summary['model']).name}: {size_words(summary['file_bytes'])}, opset "
        f"{summary['opsets'].get('ai.onnx')}{exporter}",
        "",
        *wrap(f"Runs on {status['device']} ({status['execution_provider']}).", ""),
    ]
    # Some messages end with a pointer to this command.
    lines += wrap(status["message"].partition(f" `{explain_command()}`")[0], "  ")
    lines += ["Is that normal?", *wrap(summary["normal"], "  "), "", *_node_lines(summary), ""]
    lines += _value_lines("Inputs:", summary["inputs"], run["plan"] if run else [])
    lines += [*_value_lines("Outputs:", summary["outputs"], []), "", *_cost_lines(summary)]
    return "\n".join(lines) + "\n"


def _node_lines(summary: Report) -> Iterator[str]:
    if summary["nodes"] is None:
        yield (
            f"ONNX Runtime {summary['onnxruntime']} reports where its nodes run only with --run; "
            "1.24 and later always report it."
        )
        return
    counted = {name: sum(operators.values()) for name, operators in summary["nodes"].items()}
    yield "Nodes: " + ", ".join(f"{number} on {name}" for name, number in counted.items())
    if summary["copies"]:
        yield from wrap(
            f"{summary['copies']} copies between GPU memory and main memory: one wherever a GPU "
            "node and a CPU node meet",
            "  ",
        )
    if forced := summary["forced_to_cpu"]:
        yield from wrap(
            f"ONNX Runtime moved {len(forced)} of them to the CPU because they are faster there, "
            "which is normal",
            "  ",
        )
    if judgements := summary["on_cpu"]:
        yield "On the CPU, and whether that is normal:"
        width = max(len(f"{row['operator']} ({row['nodes']})") for row in judgements)
        for row in judgements:
            name = f"{row['operator']} ({row['nodes']})"
            first = f"  {_LABELS[row['normal']]:<3} {name:<{width}}  "
            yield from wrap(row["why"], " " * len(first), first)
    elif not counted.keys() - {CPU}:
        yield from _forecast_lines(summary["on_a_gpu"], summary["nodes"].get(CPU, {}))


def _forecast_lines(usual: Mapping[str, int], operators: Mapping[str, int]) -> Iterator[str]:
    yield from wrap(
        f"With a GPU, {usual['gpu']} of them would usually run on it. The rest ({usual['either']}) "
        "computes shapes, moves values or controls the flow: some of it stays on the CPU even "
        "with a GPU, which is normal.",
        "",
    )
    heavy = sorted(((n, name) for name, n in operators.items() if is_heavy(name)), reverse=True)
    if heavy:
        carry = ", ".join(f"{name} ({number})" for number, name in heavy[:6])
        yield from wrap(f"Compute-heavy operators: {carry}.", "")


def _value_lines(title: str, values: Sequence[Report], plan: "Sequence[Filling]") -> Iterator[str]:
    fillings = {filling["name"]: filling for filling in plan}
    width = max((len(value["name"]) for value in values), default=0)
    for number, value in enumerate(values):
        name, kind = value["name"], value["type"] or "not a tensor"
        shape = "any shape" if value["shape"] is None else shape_of(value["shape"])
        run_with = f"  run with {shape_of(fillings[name]['shape'])}" if name in fillings else ""
        yield f"{title if not number else '':<11}{name:<{width}}  {kind} {shape}{run_with}"


def _cost_lines(summary: Report) -> Iterator[str]:
    yield f"Loaded in {_seconds(summary['load_seconds'])} by ONNX Runtime {summary['onnxruntime']}."
    if run := summary["run"]:
        yield (
            f"First run {_seconds(run['cold_seconds'])}, then {_seconds(run['warm_seconds'])} "
            f"(median of {run['runs']})."
        )
        parts = summary["seconds_by_provider"]
        if len(parts) > 1:
            total = sum(parts.values()) or 1.0
            shares = [f"{name} {100 * part / total:.0f} %" for name, part in parts.items()]
            yield f"Share of the time: {', '.join(shares)}."
        yield from wrap(f"Usage while running: {_activity_text(run['activity'])}.", "  ", "")
    imported, loaded, peak = map(size_words, summary["memory"].values())
    yield f"Memory: {imported} before loading, {loaded} loaded, {peak} at peak."


def _activity_text(activity: "Activity") -> str:
    parts = [f"CPU {activity['cpu_percent']:.0f} % (100 is one core)"]
    for name, gpu in activity["gpus"].items():
        busy = gpu["busy_percent"]
        share = "utilization unknown" if busy is None else f"at most {busy:.0f} % busy"
        parts.append(f"GPU {name} {share}, {size_words(gpu['used_bytes'])} in use")
    if not activity["gpus"]:
        parts.append(f"no GPU to read ({activity['fault'] or 'none listed'})")
    return "; ".join(parts)


def shape_of(shape: Sequence[int | str]) -> str:
    """A shape as text: [1, 80, T]; an axis without a name is "?"."""
    return "[" + ", ".join(str(size or "?") for size in shape) + "]"


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"


_MAX_FAULT_CHARACTERS = 300
# ONNX Runtime's CPU kernels of Add, Mul, Gemm, Dropout and BatchNormalization start at this opset.
_MIN_OPSET = 7


def refusal_message(name: str, fault: str, opset: int | None = None) -> str:
    """Why ONNX Runtime refuses a model, and what to do.

    Args:
        name: The model's name.
        fault: ONNX Runtime's error.
        opset: The version of the standard operators.
    """
    text = " ".join(fault.split())
    missing = re.search(r"Could not find an implementation for (\w+)\((\d+)\)", text)
    if missing and opset is not None and opset < _MIN_OPSET:
        return (
            f"{name} has opset {opset}, and ONNX Runtime has no kernel for its operator "
            f"{missing[1]}: most kernels start at opset {_MIN_OPSET}. Neither fp32 nor a newer "
            "ONNX Runtime helps. Export it again with opset 13 or later."
        )
    for pattern, sentence in _SENTENCES_BY_FAULT:
        if match := re.search(pattern, text):
            return f"{name} " + sentence.format(
                *match.groups(), newer=commands.install("onnxruntime", upgrade=True)
            )
    message = re.sub(r"^.*?failed: ?", "", text)
    message = re.sub(r"/\S+\.(cc|h):\d+ .*?\) ", "", message)
    return f"ONNX Runtime refuses {name}: {message[:_MAX_FAULT_CHARACTERS]}"


_SENTENCES_BY_FAULT = (
    (
        r"Fatal error: ([\w.]+):(\w+)\(-?\d+\) is not a registered",
        "has the operator {1} of {0}, which this ONNX Runtime does not know. Install the library or "
        "the build that provides it.",
    ),
    (
        r"No Op registered for (\w+) with domain_version of (\d+)",
        "has the operator {0}, which opset {1} of ONNX does not have. Export it again, or: {newer}",
    ),
    (
        r"Could not find an implementation for (\w+)\((\d+)\)",
        "has the operator {0} (opset {1}) with types for which this ONNX Runtime has no kernel. "
        "Export it in fp32, or: {newer}",
    ),
    (
        r"Opset (\d+) is under development.*?till opset (\d+)",
        "has opset {0}, and this ONNX Runtime reads up to {1}. Export it with an older opset, or: {newer}",
    ),
    (
        r"Unsupported model IR version: (\d+), max supported IR version: (\d+)",
        "has ONNX format {0}, and this ONNX Runtime reads up to {1}. Export it again, or: {newer}",
    ),
    (
        r"External data path escapes.*?\"([^\"]+)\"",
        "keeps its weights in {0}, which is a link to another folder. ONNX Runtime reads weights only "
        "from the model's own folder. Copy the file to the folder of the model.",
    ),
    (
        r"External data path.*?\"([^\"]+)\"",
        "keeps its weights in {0}, which cannot be used. Put both files into one folder.",
    ),
    (
        r"(?:No graph was found|Protobuf parsing failed)",
        "is not an ONNX model, or is truncated. Download it again.",
    ),
)
