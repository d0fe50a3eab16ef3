"""The `explain` command: reads the model, opens it in a child process, judges and prints."""

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from extras.common.answers import ask_once
from extras.common.onnxruntime import placement, sessions
from extras.common.onnxruntime.providers import CPU, ProviderRequest, wish_of
from extras.doctor.explain import inputs, model_report
from extras.doctor.explain.graph import ExplainError, ModelGraph, read
from machine.process import module_command

_OPEN_SECONDS, _RUN_SECONDS = 300.0, 900.0


def run(
    model: Path,
    provider: str = "auto",
    *,
    runs: bool = False,
    shapes: Sequence[str] = (),
    as_json: bool = False,
) -> int:
    """Explains a model and returns 0. shapes: "NAME=1,80,200". Raises SotaqueError."""
    wish = wish_of(provider)
    graph = read(model)
    plans = inputs.plans(graph.inputs, _shapes(shapes)) if runs else []
    sessions.runtime()
    facts = look(graph, wish, plans)
    if as_json:
        sys.stdout.write(json.dumps(facts, indent=2, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(model_report.as_text(facts))
    sys.stdout.flush()
    return 0


def look(
    graph: ModelGraph,
    wish: ProviderRequest,
    plans: list[list[inputs.Filling]],
    looks: sessions.Looks | None = None,
) -> dict[str, object]:
    """Opens the model on the requested provider, or on the CPU if that fails.

    Returns:
        `model_report.facts`.

    Raises:
        ExplainError: The model cannot be opened or run.
    """
    looks = looks or sessions.Looks()
    got, refusal = sessions.choose(wish, looks)
    provider = CPU if got.kind == "cpu" else looks.trial(got).provider
    answer, log = _ask_child(graph, provider, got, plans)
    if "nodes" not in answer and got.kind != "cpu":
        refusal, got = placement.refused_model(got, answer.get("fault", "")), ProviderRequest("cpu")
        answer, log = _ask_child(graph, CPU, got, plans)
    if "nodes" not in answer:
        opset = graph.opsets.get("ai.onnx")
        raise ExplainError(model_report.refusal(str(graph.path), answer.get("fault", ""), opset))
    if fault := (answer.get("run") or {}).get("fault"):
        raise ExplainError(_not_run(graph, fault))
    if fault := answer.get("fault"):
        raise ExplainError(f"{graph.path} was opened, but then failed: {_line(fault)}")
    status = placement.status(wish, got, answer["active"][0], answer["nodes"], refusal)
    return model_report.facts(graph, status, answer, log)


def _ask_child(
    graph: ModelGraph, provider: str, got: ProviderRequest, plans: list[list[inputs.Filling]]
) -> tuple[model_report.Report, str]:
    """The child's answer and its stderr."""
    request = {"model": str(graph.path), "provider": provider, "options": got.options(), "plans": plans}
    limit_seconds = _RUN_SECONDS if plans else _OPEN_SECONDS
    child = ask_once(module_command("extras.doctor.explain.running_child"), limit_seconds, request=request)
    answer = child.answer or {"fault": f"its process returned no result ({child.last_error})"}
    return answer, child.errors


def _not_run(graph: ModelGraph, fault: str) -> str:
    names = ", ".join(
        f"{value.name} {model_report.shape_of(value.shape)}"
        for value in graph.inputs
        if value.shape is not None
    )
    return (
        f"{graph.path} was opened, but accepts none of the generated inputs: {_line(fault)} Give "
        f"the shapes with --shape NAME=1,80,200; its inputs are {names}."
    )


def _line(fault: str) -> str:
    message = re.sub(r"/\S+\.(cc|h):\d+ .*?\) ", "", " ".join(fault.split()))
    return message[:300].rstrip(".") + "."


def _shapes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    shapes = {}
    for text in texts:
        name, _, sizes = text.rpartition("=")
        parts = re.split("[,x]", sizes)
        if not name or not all(part.strip().isdigit() and int(part) > 0 for part in parts):
            raise ExplainError(f"--shape {text} is not valid; write it as NAME=1,80,200.")
        shapes[name] = tuple(int(part) for part in parts)
    return shapes
