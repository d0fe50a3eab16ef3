"""Everything found out about an ONNX model: from its file, a session, a run."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from machine.explain.graph import ModelGraph
from machine.explain.judging import Judgement, OperatorRun, judge
from machine.onnxruntime.operators import is_copy
from machine.onnxruntime.placement import SessionStatus
from machine.onnxruntime.providers import CPU

_COPIES = re.compile(r"(\d+) Memcpy nodes are added to the graph")
_FORCED = re.compile(r"Force fallback to CPU execution for node: (.*?) because")


@dataclass(frozen=True)
class ModelRun:
    """plan: the inputs that were made; cold_seconds: the first time; warm_seconds: the median of
    `runs` more; activity: as `running_child.Activity.report`."""

    plan: tuple[Mapping[str, Any], ...]
    cold_seconds: float
    warm_seconds: float
    runs: int
    activity: Mapping[str, Any]
    executed: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class Explanation:
    """nodes: provider -> operator -> number. copies: nodes that ONNX Runtime put in to bring values
    from one memory to the other; forced: nodes that it took back to the CPU as quicker there."""

    graph: ModelGraph
    status: SessionStatus
    version: str
    nodes: Mapping[str, Mapping[str, int]] | None
    copies: int
    forced: tuple[str, ...]
    judgements: tuple[Judgement, ...]
    load_seconds: float
    import_bytes: int
    loaded_bytes: int
    peak_bytes: int
    run: ModelRun | None = None
    seconds_by_provider: Mapping[str, float] = field(default_factory=dict)


def explained(
    graph: ModelGraph, status: SessionStatus, answer: Mapping[str, Any], log: str
) -> Explanation:
    """answer: the child's answer (`running_child`); log: what it wrote to file descriptor 2."""
    run = _run(answer.get("run"))
    executed = run.executed if run else ()
    seconds: dict[str, float] = {}
    for row in executed:
        seconds[row["provider"]] = seconds.get(row["provider"], 0.0) + row["seconds"]
    return Explanation(
        graph, status, answer["version"], answer["nodes"], copies(log, executed),
        tuple(_FORCED.findall(log)), _judgements(graph, answer["nodes"], executed),
        answer["load_seconds"], answer["import_bytes"],
        answer["loaded_bytes"], answer["peak_bytes"],
        run, seconds,
    )  # fmt: skip


def copies(log: str, executed: tuple[Mapping[str, Any], ...]) -> int:
    """As ONNX Runtime warns of them, else as they were run."""
    warned = sum(int(number) for number in _COPIES.findall(log))
    return warned or sum(row["times"] for row in executed if is_copy(row["operator"]))


def _judgements(
    graph: ModelGraph,
    nodes: Mapping[str, Mapping[str, int]] | None,
    executed: tuple[Mapping[str, Any], ...],
) -> tuple[Judgement, ...]:
    """Of every operator on the CPU, the wrong ones first; none where all of it is on the CPU."""
    if not nodes or not nodes.keys() - {CPU}:
        return ()
    domains = {name: domain for domain, name in graph.operators}
    ran = {
        row["operator"]: OperatorRun(row["times"], row["seconds"], row["largest"])
        for row in executed
        if row["provider"] == CPU
    }
    judged = [
        # What was placed as Conv may have run fused with what follows it.
        judge(name, number, ran.get(name) or ran.get(f"Fused{name}"), domains.get(name, ""))
        for name, number in nodes.get(CPU, {}).items()
    ]
    order = {"no": 0, "unclear": 1, "yes": 2}
    return tuple(sorted(judged, key=lambda one: (order[one.normal], -one.nodes, one.operator)))


def _run(answer: Mapping[str, Any] | None) -> ModelRun | None:
    if not answer:
        return None
    return ModelRun(
        tuple(answer["plan"]), answer["cold_seconds"], answer["warm_seconds"], answer["runs"],
        answer["activity"], tuple(answer["executed"]),
    )  # fmt: skip
