"""Prints an explanation as text or JSON; ONNX Runtime's load errors as one sentence."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from machine.explain.explanation import Explanation, ModelRun
from machine.explain.graph import GraphValue
from machine.explain.judging import Judgement, Normality, answer, forecast
from machine.onnxruntime.operators import is_heavy
from machine.onnxruntime.providers import CPU
from machine.text import size_words, wrapped

SCHEMA = 1
_LABELS = {Normality.YES: "ok", Normality.NO: "NO", Normality.UNCLEAR: "?"}


def as_text(found: Explanation) -> str:
    """Where it runs and whether that is normal, first; then what was seen."""
    graph = found.graph
    opset = graph.opsets.get("ai.onnx")
    made = f", made by {graph.producer}" if graph.producer else ""
    lines = [f"{graph.path.name}: {size_words(graph.file_bytes)}, opset {opset}{made}", ""]
    lines += _where(found)
    lines += ["", *_nodes(found)]
    lines += ["", *_table("Goes in:", graph.inputs, found.run)]
    lines += _table("Comes out:", graph.outputs, None)
    lines += ["", *_costs(found)]
    return "\n".join(lines) + "\n"


def as_json(found: Explanation) -> str:
    """Names stay, texts may get better."""
    graph = found.graph
    fields: dict[str, Any] = {
        "schema": SCHEMA,
        "model": str(graph.path),
        "file_bytes": graph.file_bytes,
        "opsets": graph.opsets,
        "producer": graph.producer,
        "onnxruntime": found.version,
        "status": found.status.as_dict(),
        "normal": normal(found),
        "nodes": found.nodes,
        "copies": found.copies,
        "forced_to_cpu": found.forced,
        "on_cpu": [asdict(one) for one in found.judgements],
        "on_a_gpu": forecast(_all_nodes(found)),
        "inputs": [asdict(one) for one in graph.inputs],
        "outputs": [asdict(one) for one in graph.outputs],
        "load_seconds": found.load_seconds,
        "memory": {"import_bytes": found.import_bytes, "loaded_bytes": found.loaded_bytes,
                   "peak_bytes": found.peak_bytes},
        "run": asdict(found.run) if found.run else None,
        "seconds_by_provider": found.seconds_by_provider,
    }  # fmt: skip
    return json.dumps(fields, indent=2, ensure_ascii=False) + "\n"


def normal(found: Explanation) -> str:
    """The answer to "is it normal that nodes are on the CPU?", in a sentence."""
    taken = found.status.accelerator_nodes
    if taken:
        return answer(list(found.judgements), taken)
    if found.status.reason_code == "no_gpu" and found.status.requested_provider == "auto":
        return "Yes: there is no GPU here that could be used, so the CPU runs all of it."
    if found.status.message:
        return "No: an accelerator was wished for, and all of it runs on the CPU."
    return "Yes: the CPU was asked for, and all of it runs there."


def _where(found: Explanation) -> list[str]:
    status = found.status
    lines = wrapped(f"Runs on {status.device} ({status.execution_provider}).", "")
    # The last sentence of some sends whoever serves the model here.
    if message := status.message.partition(" `python -m xtts explain`")[0]:
        lines += wrapped(message, "  ")
    lines += ["Is that normal?", *wrapped(normal(found), "  ")]
    return lines


def _nodes(found: Explanation) -> list[str]:
    if found.nodes is None:
        return [
            f"ONNX Runtime {found.version} tells where its nodes are only with --run; 1.24 and "
            "later always do."
        ]
    counted = {name: sum(operators.values()) for name, operators in found.nodes.items()}
    lines = ["Nodes: " + ", ".join(f"{number} on {name}" for name, number in counted.items())]
    if found.copies:
        lines += wrapped(
            f"{found.copies} copies between the GPU's memory and the machine's: each place where a "
            "GPU's node meets one on the CPU costs one", "  ")  # fmt: skip
    if found.forced:
        lines += wrapped(
            f"{len(found.forced)} of them ONNX Runtime took back to the CPU itself, as quicker "
            "there: that is normal", "  ")  # fmt: skip
    if found.judgements:
        lines += ["On the CPU, and whether that is normal:", *_judged(found.judgements)]
    elif not counted.keys() - {CPU}:
        lines += _forecast(found)
    return lines


def _judged(judgements: Sequence[Judgement]) -> Iterator[str]:
    width = max(len(f"{one.operator} ({one.nodes})") for one in judgements)
    for one in judgements:
        first = f"  {_LABELS[one.normal]:<3} {f'{one.operator} ({one.nodes})':<{width}}  "
        yield from wrapped(one.why, " " * len(first), first)


def _forecast(found: Explanation) -> list[str]:
    operators = _all_nodes(found)
    usual = forecast(operators)
    heavy = sorted(((n, name) for name, n in operators.items() if is_heavy(name)), reverse=True)
    carry = ", ".join(f"{name} ({number})" for number, name in heavy[:6])
    sentence = (
        f"With a GPU {usual['gpu']} of them would usually be there. The other {usual['either']} "
        "reckon with sizes, move pieces, choose or repeat: some of them stay here beside any GPU, "
        "and that is normal."
    )
    return wrapped(sentence, "") + (
        wrapped(f"The work is carried by {carry}.", "") if carry else []
    )


def _all_nodes(found: Explanation) -> Counter[str]:
    """Operators as they were placed, wherever; as the file has them where that is not told."""
    if found.nodes is None:
        every: Counter[str] = Counter()
        for (_, name), number in found.graph.operators.items():
            every[name] += number
        return every
    return sum((Counter(one) for one in found.nodes.values()), Counter())


def _table(title: str, values: Sequence[GraphValue], run: ModelRun | None) -> Iterator[str]:
    made = {one["name"]: one for one in run.plan} if run else {}
    width = max((len(one.name) for one in values), default=0)
    for number, one in enumerate(values):
        shape = "any shape" if one.shape is None else shape_of(one.shape)
        run_with = f"  run with {shape_of(made[one.name]['shape'])}" if one.name in made else ""
        kind = one.type or "no tensor"
        yield f"{title if not number else '':<11}{one.name:<{width}}  {kind} {shape}{run_with}"


def _costs(found: Explanation) -> Iterator[str]:
    yield f"Loaded in {_seconds(found.load_seconds)} by ONNX Runtime {found.version}."
    if run := found.run:
        yield (
            f"First run {_seconds(run.cold_seconds)}, then {_seconds(run.warm_seconds)} (median of "
            f"{run.runs})."
        )
        if len(found.seconds_by_provider) > 1:
            whole = sum(found.seconds_by_provider.values()) or 1.0
            shares = ", ".join(
                f"{name} {100 * part / whole:.0f} %"
                for name, part in found.seconds_by_provider.items()
            )
            yield f"Share of the time: {shares}."
        yield from wrapped(f"While it ran: {_activity(run)}.", "  ", "")
    yield (
        f"Memory: {size_words(found.import_bytes)} before it, "
        f"{size_words(found.loaded_bytes)} loaded, {size_words(found.peak_bytes)} at the most."
    )


def _activity(run: ModelRun) -> str:
    cpu = run.activity["cpu_percent"]
    parts = ["CPU not measured" if cpu is None else f"CPU {cpu:.0f} % (100 is one core)"]
    for name, gpu in run.activity["gpus"].items():
        busy = gpu["busy_percent"]
        share = "busy unknown" if busy is None else f"{busy:.0f} % busy at most"
        parts.append(f"GPU {name} {share}, {size_words(gpu['used_bytes'])} in use")
    if not run.activity["gpus"]:
        parts.append(f"no GPU to watch ({run.activity['fault'] or 'none listed'})")
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
