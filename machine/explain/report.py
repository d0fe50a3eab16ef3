"""What is known of an ONNX model, as text or JSON; ONNX Runtime's load errors as one sentence."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from machine.explain.graph import ModelGraph
from machine.explain.judging import Judgement, answer, forecast, judge
from machine.onnxruntime.operators import is_heavy
from machine.onnxruntime.placement import SessionStatus
from machine.onnxruntime.providers import CPU
from machine.text import size_words, wrapped

SCHEMA = 1
_LABELS = {"yes": "ok", "no": "NO", "unclear": "?"}
_COPIES = re.compile(r"(\d+) Memcpy nodes are added to the graph")
_FORCED = re.compile(r"Force fallback to CPU execution for node: (.*?) because")


def facts(
    graph: ModelGraph, status: SessionStatus, told: Mapping[str, Any], log: str
) -> dict[str, Any]:
    """Everything that was found out, for JSON: names stay, texts may get better.

    Args:
        told: The child's answer (`running_child`).
        log: What it wrote to file descriptor 2.

    Returns:
        Among others: nodes, provider -> operator -> number; copies, nodes that ONNX Runtime put in
        to bring values from one memory to the other; forced_to_cpu, nodes that it took back to the
        CPU as quicker there; on_cpu, of every operator there whether that is normal.
    """
    run, nodes = told.get("run"), told["nodes"]
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
    judged = _judged(graph, nodes, executed)
    return {
        "schema": SCHEMA,
        "model": str(graph.path),
        "file_bytes": graph.file_bytes,
        "opsets": graph.opsets,
        "producer": graph.producer,
        "onnxruntime": told["version"],
        "status": status.as_dict(),
        "normal": answer(status, judged),
        "nodes": nodes,
        "copies": copies(log, executed),
        "forced_to_cpu": _FORCED.findall(log),
        "on_cpu": [one._asdict() for one in judged],
        "on_a_gpu": forecast(operators),
        "inputs": [asdict(one) for one in graph.inputs],
        "outputs": [asdict(one) for one in graph.outputs],
        "load_seconds": told["load_seconds"],
        "memory": {name: told[name] for name in ("import_bytes", "loaded_bytes", "peak_bytes")},
        "run": run,
        "seconds_by_provider": seconds,
    }


def copies(log: str, executed: Sequence[Mapping[str, Any]]) -> int:
    """As ONNX Runtime warns of them, else as they were run."""
    warned = sum(int(number) for number in _COPIES.findall(log))
    copying = ("MemcpyToHost", "MemcpyFromHost")
    return warned or sum(row["times"] for row in executed if row["operator"] in copying)


def _judged(
    graph: ModelGraph,
    nodes: Mapping[str, Mapping[str, int]] | None,
    executed: Sequence[Mapping[str, Any]],
) -> list[Judgement]:
    """Of every operator on the CPU, the wrong ones first; none where all of it is on the CPU."""
    if not nodes or not nodes.keys() - {CPU}:
        return []
    domains = {name: domain for domain, name in graph.operators}
    ran = {row["operator"]: row for row in executed if row["provider"] == CPU}
    judged = []
    for name, number in nodes.get(CPU, {}).items():
        # What was placed as Conv may have run fused with what follows it.
        row = ran.get(name) or ran.get(f"Fused{name}") or {"largest": None, "seconds": 0.0}
        normal, why = judge(name, row["largest"], domains.get(name, ""))
        judged.append(Judgement(name, number, normal, why, row["largest"], row["seconds"]))
    order = ("no", "unclear", "yes")
    return sorted(judged, key=lambda one: (order.index(one.normal), -one.nodes, one.operator))


def as_text(found: Mapping[str, Any]) -> str:
    """`facts` in words: where it runs and whether that is normal, first; then what was seen."""
    status, run = found["status"], found["run"]
    made = f", made by {found['producer']}" if found["producer"] else ""
    lines = [
        f"{Path(found['model']).name}: {size_words(found['file_bytes'])}, opset "
        f"{found['opsets'].get('ai.onnx')}{made}",
        "",
        *wrapped(f"Runs on {status['device']} ({status['execution_provider']}).", ""),
    ]
    # The last sentence of some sends whoever serves the model here.
    lines += wrapped(status["message"].partition(" `python -m xtts explain`")[0], "  ")
    lines += ["Is that normal?", *wrapped(found["normal"], "  "), "", *_nodes(found), ""]
    lines += _values("Goes in:", found["inputs"], run["plan"] if run else [])
    lines += [*_values("Comes out:", found["outputs"], []), "", *_costs(found)]
    return "\n".join(lines) + "\n"


def _nodes(found: Mapping[str, Any]) -> Iterator[str]:
    if found["nodes"] is None:
        yield (
            f"ONNX Runtime {found['onnxruntime']} tells where its nodes are only with --run; 1.24 "
            "and later always do."
        )
        return
    counted = {name: sum(operators.values()) for name, operators in found["nodes"].items()}
    yield "Nodes: " + ", ".join(f"{number} on {name}" for name, number in counted.items())
    if found["copies"]:
        yield from wrapped(
            f"{found['copies']} copies between the GPU's memory and the machine's: each place "
            "where a GPU's node meets one on the CPU costs one", "  ")  # fmt: skip
    if forced := found["forced_to_cpu"]:
        yield from wrapped(
            f"{len(forced)} of them ONNX Runtime took back to the CPU itself, as quicker there: "
            "that is normal", "  ")  # fmt: skip
    if judged := found["on_cpu"]:
        yield "On the CPU, and whether that is normal:"
        width = max(len(f"{one['operator']} ({one['nodes']})") for one in judged)
        for one in judged:
            name = f"{one['operator']} ({one['nodes']})"
            first = f"  {_LABELS[one['normal']]:<3} {name:<{width}}  "
            yield from wrapped(one["why"], " " * len(first), first)
    elif not counted.keys() - {CPU}:
        yield from _forecast(found["on_a_gpu"], found["nodes"].get(CPU, {}))


def _forecast(usual: Mapping[str, int], operators: Mapping[str, int]) -> Iterator[str]:
    yield from wrapped(
        f"With a GPU {usual['gpu']} of them would usually be there. The other {usual['either']} "
        "reckon with sizes, move pieces, choose or repeat: some of them stay here beside any GPU, "
        "and that is normal.", "")  # fmt: skip
    heavy = sorted(((n, name) for name, n in operators.items() if is_heavy(name)), reverse=True)
    if heavy:
        carry = ", ".join(f"{name} ({number})" for number, name in heavy[:6])
        yield from wrapped(f"The work is carried by {carry}.", "")


def _values(
    title: str, values: Sequence[Mapping[str, Any]], plan: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    made = {one["name"]: one for one in plan}
    width = max((len(one["name"]) for one in values), default=0)
    for number, one in enumerate(values):
        name, kind = one["name"], one["type"] or "no tensor"
        shape = "any shape" if one["shape"] is None else shape_of(one["shape"])
        run_with = f"  run with {shape_of(made[name]['shape'])}" if name in made else ""
        yield f"{title if not number else '':<11}{name:<{width}}  {kind} {shape}{run_with}"


def _costs(found: Mapping[str, Any]) -> Iterator[str]:
    yield f"Loaded in {_seconds(found['load_seconds'])} by ONNX Runtime {found['onnxruntime']}."
    if run := found["run"]:
        yield (
            f"First run {_seconds(run['cold_seconds'])}, then {_seconds(run['warm_seconds'])} "
            f"(median of {run['runs']})."
        )
        parts = found["seconds_by_provider"]
        if len(parts) > 1:
            whole = sum(parts.values()) or 1.0
            shares = [f"{name} {100 * part / whole:.0f} %" for name, part in parts.items()]
            yield f"Share of the time: {', '.join(shares)}."
        yield from wrapped(f"While it ran: {_activity(run['activity'])}.", "  ", "")
    imported, loaded, peak = map(size_words, found["memory"].values())
    yield f"Memory: {imported} before it, {loaded} loaded, {peak} at the most."


def _activity(activity: Mapping[str, Any]) -> str:
    parts = [f"CPU {activity['cpu_percent']:.0f} % (100 is one core)"]
    for name, gpu in activity["gpus"].items():
        busy = gpu["busy_percent"]
        share = "busy unknown" if busy is None else f"{busy:.0f} % busy at most"
        parts.append(f"GPU {name} {share}, {size_words(gpu['used_bytes'])} in use")
    if not activity["gpus"]:
        parts.append(f"no GPU to watch ({activity['fault'] or 'none listed'})")
    return "; ".join(parts)


def shape_of(shape: Sequence[int | str]) -> str:
    """As [1, 80, T]; an axis without a name is ?."""
    return "[" + ", ".join(str(size or "?") for size in shape) + "]"


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"


_NEWER = ".venv/bin/uv pip install --upgrade onnxruntime"
_MOST_CHARACTERS = 300
# ONNX Runtime's CPU kernels of Add, Mul, Gemm, Dropout and BatchNormalization begin here.
_OLDEST_OPSET = 7


def refusal(name: str, fault: str, opset: int | None = None) -> str:
    """What is wrong with the model `name`, and what to do. opset: of the standard operators."""
    text = " ".join(fault.split())
    missing = re.search(r"Could not find an implementation for (\w+)\((\d+)\)", text)
    if missing and opset is not None and opset < _OLDEST_OPSET:
        return (
            f"{name} is of opset {opset}, and has the operator {missing[1]} in a form for which "
            f"ONNX Runtime has no kernel: most of its kernels begin with opset {_OLDEST_OPSET}, so "
            "neither fp32 nor a newer ONNX Runtime helps. Export it again with opset 13 or later."
        )
    for pattern, sentence in _KNOWN:
        if found := re.search(pattern, text):
            return f"{name} " + sentence.format(*found.groups(), newer=_NEWER)
    message = re.sub(r"^.*?failed: ?", "", text)
    message = re.sub(r"/\S+\.(cc|h):\d+ .*?\) ", "", message)
    return f"{name} is refused by ONNX Runtime: {message[:_MOST_CHARACTERS]}"


_KNOWN = (
    (r"Fatal error: ([\w.]+):(\w+)\(-?\d+\) is not a registered",
     "has the operator {1} of {0}, which this ONNX Runtime does not know. It comes with a library "
     "of its own, or with another build."),
    (r"No Op registered for (\w+) with domain_version of (\d+)",
     "has the operator {0}, which opset {1} of ONNX does not have. Export it again, or: {newer}"),
    (r"Could not find an implementation for (\w+)\((\d+)\)",
     "has the operator {0} (opset {1}) with types for which this ONNX Runtime has no kernel. "
     "Export it in fp32, or: {newer}"),
    (r"Opset (\d+) is under development.*?till opset (\d+)",
     "is of opset {0}, and this ONNX Runtime reads up to {1}. Export it with an older opset, or: "
     "{newer}"),
    (r"Unsupported model IR version: (\d+), max supported IR version: (\d+)",
     "is of ONNX format {0}, and this ONNX Runtime reads up to {1}. Export it again, or: {newer}"),
    (r"External data path escapes.*?\"([^\"]+)\"",
     "keeps its weights in {0}, which is a link out of its folder; ONNX Runtime reads weights only "
     "from there. Copy the file itself beside the model."),
    (r"External data path.*?\"([^\"]+)\"",
     "keeps its weights in {0}, which cannot be used. Put both files into one folder."),
    (r"(?:No graph was found|Protobuf parsing failed)",
     "is no ONNX model, or cut short. Get it again."),
)  # fmt: skip
