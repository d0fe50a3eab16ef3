"""Common kinds of models, and our own, run with made-up inputs."""

import json

import pytest

from extras.common.onnxruntime.operators import is_heavy
from extras.common.onnxruntime.placement import session_status
from extras.common.onnxruntime.providers import CPU, CUDA, ProviderRequest
from extras.doctor.explain import inputs, running_child
from extras.doctor.explain.graph import ModelGraph, read
from extras.doctor.explain.model_report import as_text, facts
from extras.doctor.explain.running_child import operator_rows
from tests.extras.doctor.explain.kinds import KINDS, written

# The shapes of each kind's inputs, and its typical operators.
EXPECTED = {
    "YuNet": ({"input": [1, 3, 320, 320]}, {"Conv", "Resize", "Sigmoid", "Shape"}),
    "ArcFace": ({"data": [1, 3, 112, 112]}, {"Conv", "PRelu", "Gemm"}),
    "Silero VAD": ({"input": [1, 512], "state": [2, 1, 128], "sr": []}, {"If", "LSTM", "Conv"}),
    "ECAPA": ({"feats": [1, 200, 80]}, {"Conv", "ReduceSum", "Softmax", "Gemm"}),
    "Piper": (
        {"input": [1, 32], "input_lengths": [1], "scales": [3], "sid": [1]},
        {"Gather", "RandomNormalLike", "CumSum", "ConvTranspose", "Range"},
    ),
    "decoder step": (
        {"input_ids": [1, 32], "attention_mask": [1, 40], "past_key_values.0.key": [1, 2, 8, 4]},
        {"Gather", "MatMul", "Softmax"},
    ),
}


def run_here(graph: ModelGraph, monkeypatch: pytest.MonkeyPatch) -> dict:
    """Does the child's work in this process, where everything is imported."""
    plans = inputs.make_plans(graph.inputs, {})
    monkeypatch.setattr(running_child, "_WARM_SECONDS", 0.0)
    found = running_child.answer({"model": str(graph.path), "provider": CPU, "options": {}, "plans": plans})
    return json.loads(json.dumps(found))


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_read_and_run_with_sensible_inputs(kind, tmp_path, monkeypatch):
    graph = read(written(kind, tmp_path))
    shapes, operators = EXPECTED[kind]
    assert {value.name for value in graph.inputs} == set(shapes)
    assert operators <= {name for _, name in graph.operators}
    told = run_here(graph, monkeypatch)
    assert "fault" not in told and "fault" not in told["run"], told
    assert {filling["name"]: filling["shape"] for filling in told["run"]["plan"]} == shapes
    assert told["nodes"].keys() == {CPU} and told["active"] == [CPU]
    assert told["run"]["cold_seconds"] > 0 < told["run"]["warm_seconds"]
    assert 0 < told["import_bytes"] <= told["peak_bytes"]
    ran = {row["operator"] for row in told["run"]["executed"]}
    assert any(is_heavy(name) for name in ran) and all(
        row["seconds"] >= 0 and row["times"] > 0 for row in told["run"]["executed"]
    )
    wish = ProviderRequest("cpu")
    text = as_text(facts(graph, session_status(wish, wish, CPU, told["nodes"], None), told, ""))
    assert "Yes: the CPU was requested" in text and "With a GPU, " in text
    assert all(f"run with {shape}" in text for shape in shapes.values())
    assert max(map(len, text.splitlines())) <= 100


def test_an_older_onnx_runtime_tells_by_its_profile(tmp_path, monkeypatch):
    """Before 1.24 a session does not report where its nodes run."""
    monkeypatch.setattr(running_child, "node_counts", lambda _: None)
    told = run_here(read(written("ECAPA", tmp_path)), monkeypatch)
    assert told["nodes"].keys() == {CPU} and told["nodes"][CPU]["Conv"] >= 1


@pytest.mark.parametrize("name", ["conditioning", "gpt", "gpt_int8", "speaker", "vocoder"])
def test_our_own_graphs_are_explained(name, onnx_folder, monkeypatch):
    graph = read(onnx_folder / f"{name}.onnx")
    told = run_here(graph, monkeypatch)
    assert "fault" not in told and "fault" not in told["run"], told
    assert any(is_heavy(operator) for operator in told["nodes"][CPU])
    assert graph.file_bytes > (onnx_folder / f"{name}.onnx").stat().st_size  # with external data


def test_a_profile_is_counted_by_its_last_run():
    def node(ts: int, provider: str, operator: str, shape: list[int]) -> dict:
        return {
            "cat": "Node",
            "name": f"{operator}_kernel_time",
            "ts": ts,
            "dur": 500,
            "args": {
                "provider": provider,
                "op_name": operator,
                "input_type_shape": [{"float": shape}],
                "output_type_shape": [{"int64": [2]}],
            },
        }

    events = [
        {"cat": "Session", "name": "model_loading_uri", "ts": 0, "dur": 9, "args": {}},
        node(12, CPU, "Conv", [1, 3, 99, 99]),
        {"cat": "Session", "name": "model_run", "ts": 10, "dur": 5, "args": {}},
        node(22, CPU, "Shape", [1, 3, 8, 8]),
        node(23, CUDA, "Conv", [1, 3, 8, 8]),
        node(24, CPU, "Shape", [4]),
        {"cat": "Node", "name": "fence", "ts": 25, "dur": 1, "args": {}},
        {"cat": "Session", "name": "model_run", "ts": 20, "dur": 6, "args": {}},
    ]
    assert operator_rows(events) == [
        {"provider": CPU, "operator": "Shape", "times": 2, "seconds": 0.001, "largest": 192},
        {"provider": CUDA, "operator": "Conv", "times": 1, "seconds": 0.0005, "largest": 192},
    ]
