"""The `explain` command: reads the model, opens it in a child process, judges and prints."""

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from extras.common.answers import ask_once
from extras.common.onnxruntime import placement, sessions
from extras.common.onnxruntime.providers import CPU, ProviderRequest, parse_provider
from extras.doctor.explain import inputs, model_report
from extras.doctor.explain.graph import ExplainError, ModelGraph, read
from machine.process import module_command

_MAX_OPEN_SECONDS, _MAX_RUN_SECONDS = 300.0, 900.0


def run(
    model: Path,
    provider: str = "auto",
    *,
    runs: bool = False,
    shapes: Sequence[str] = (),
    as_json: bool = False,
) -> int:
    """Explains a model and returns 0. Raises SotaqueError.

    Args:
        model: The path of the model.
        provider: As for `parse_provider`.
        runs: Whether to run the model.
        shapes: Shapes of inputs, as "NAME=1,80,200".
        as_json: Whether to print JSON.
    """
    request = parse_provider(provider)
    graph = read(model)
    plans = inputs.make_plans(graph.inputs, _parse_shapes(shapes)) if runs else []
    sessions.runtime()
    facts = explain(graph, request, plans)
    if as_json:
        sys.stdout.write(json.dumps(facts, indent=2, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(model_report.as_text(facts))
    sys.stdout.flush()
    return 0


def explain(
    graph: ModelGraph,
    request: ProviderRequest,
    plans: list[list[inputs.Filling]],
    inspectors: sessions.Inspectors | None = None,
) -> dict[str, object]:
    """Opens the model on the requested provider, or on the CPU if that fails.

    Returns:
        `model_report.facts`.

    Raises:
        ExplainError: The model cannot be opened or run.
    """
    inspectors = inspectors or sessions.Inspectors()
    chosen, refusal = sessions.choose(request, inspectors)
    provider = CPU if chosen.kind == "cpu" else inspectors.try_request(chosen).provider
    answer, log = _ask_child(graph, provider, chosen, plans)
    if "nodes" not in answer and chosen.kind != "cpu":
        refusal, chosen = placement.model_refusal(chosen, answer.get("fault", "")), ProviderRequest("cpu")
        answer, log = _ask_child(graph, CPU, chosen, plans)
    if "nodes" not in answer:
        opset = graph.opsets.get("ai.onnx")
        raise ExplainError(model_report.refusal_message(str(graph.path), answer.get("fault", ""), opset))
    if fault := (answer.get("run") or {}).get("fault"):
        raise ExplainError(_refused_inputs_message(graph, fault))
    if fault := answer.get("fault"):
        raise ExplainError(f"{graph.path} was opened, but then failed: {_shorten(fault)}")
    status = placement.session_status(request, chosen, answer["active"][0], answer["nodes"], refusal)
    return model_report.facts(graph, status, answer, log)


def _ask_child(
    graph: ModelGraph, provider: str, chosen: ProviderRequest, plans: list[list[inputs.Filling]]
) -> tuple[model_report.Report, str]:
    """Returns the child's answer and its stderr."""
    request = {"model": str(graph.path), "provider": provider, "options": chosen.options(), "plans": plans}
    limit_seconds = _MAX_RUN_SECONDS if plans else _MAX_OPEN_SECONDS
    reply = ask_once(module_command("extras.doctor.explain.running_child"), limit_seconds, request=request)
    answer = reply.answer or {"fault": f"its process returned no result ({reply.last_error})"}
    return answer, reply.errors


def _refused_inputs_message(graph: ModelGraph, fault: str) -> str:
    names = ", ".join(
        f"{value.name} {model_report.shape_of(value.shape)}"
        for value in graph.inputs
        if value.shape is not None
    )
    return (
        f"{graph.path} was opened, but accepts none of the generated inputs: {_shorten(fault)} Give "
        f"the shapes with --shape NAME=1,80,200; its inputs are {names}."
    )


def _shorten(fault: str) -> str:
    """An error of ONNX Runtime in one line, without the location in its source."""
    message = re.sub(r"/\S+\.(cc|h):\d+ .*?\) ", "", " ".join(fault.split()))
    return message[:300].rstrip(".") + "."


def _parse_shapes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    shapes = {}
    for text in texts:
        name, _, sizes = text.rpartition("=")
        parts = re.split("[,x]", sizes)
        if not name or not all(part.strip().isdigit() and int(part) > 0 for part in parts):
            raise ExplainError(f"--shape {text} is not valid; write it as NAME=1,80,200.")
        shapes[name] = tuple(int(part) for part in parts)
    return shapes
