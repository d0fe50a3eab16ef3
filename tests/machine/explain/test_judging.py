"""Whether an operator's place on the CPU is normal, and how that is told."""

import json
from collections import Counter
from pathlib import Path

import pytest

from machine.explain.explanation import copies, explained
from machine.explain.graph import ModelGraph
from machine.explain.judging import Normality, OperatorRun, answer, forecast, judge
from machine.explain.report import as_json, as_text
from machine.explain.running_child import executed
from machine.onnxruntime.evidence import NodePlacement
from machine.onnxruntime.placement import ProviderVerdict, status
from machine.onnxruntime.providers import CPU, CUDA, ProviderRequest

SMALL, LARGE = OperatorRun(2, 1e-5, 12), OperatorRun(2, 1e-2, 1_000_000)


@pytest.mark.parametrize(
    ("operator", "ran", "normal", "told"),
    [
        ("Shape", None, "yes", "reckons with sizes"),
        ("Gather", SMALL, "yes", "12 values at most"),
        ("Concat", None, "yes", "sizes"),
        ("Slice", LARGE, "unclear", "moves 1,000,000 values"),
        ("Conv", None, "no", "carries the work"),
        ("Conv", SMALL, "no", "carries the work"),
        ("ConvTranspose", LARGE, "no", "belongs on the accelerator"),
        ("LSTM", None, "no", "carries the work"),
        ("MatMulInteger", LARGE, "no", "int8 is for the CPU"),
        ("If", None, "yes", "chooses or repeats"),
        ("Loop", LARGE, "yes", "chooses or repeats"),
        ("NonMaxSuppression", LARGE, "yes", "finds few values"),
        ("RandomNormalLike", SMALL, "yes", "random"),
        ("Mul", SMALL, "yes", "quicker here"),
        ("Mul", LARGE, "no", "forces two copies"),
        ("Mul", None, "unclear", "--run tells"),
        ("SomethingNew", None, "unclear", "--run tells"),
        ("StringNormalizer", None, "yes", "on the CPU only"),
    ],
)
def test_normal_or_not(operator, ran, normal, told) -> None:
    found = judge(operator, 3, ran)
    assert (found.normal, found.nodes) == (Normality(normal), 3)
    assert told in found.why


def test_trees_are_computed_on_the_cpu_only() -> None:
    found = judge("TreeEnsembleClassifier", 1, LARGE, "ai.onnx.ml")
    assert found.normal is Normality.YES


# As Piper on CUDA: document 000's figures for copies, its lines of the log.
LOG = """2026-11-21 [W:onnxruntime:, transformer_memcpy.cc:111 ApplyImpl] 28 Memcpy nodes are \
added to the graph main_graph for CUDAExecutionProvider. It might have negative impact on \
performance
2026-11-21 [I:onnxruntime:, fallback_cpu_capability.cc:166 GetCpuPreferredNodes] ORT optimization- \
Force fallback to CPU execution for node: /dp/Slice_3 because the CPU execution path is deemed \
faster than overhead involved with execution on other EPs capable of executing this node
2026-11-21 [I:onnxruntime:, fallback_cpu_capability.cc:166 GetCpuPreferredNodes] ORT optimization- \
Force fallback to CPU execution for node: /dp/Gather because the CPU execution path is deemed \
faster than overhead involved with execution on other EPs capable of executing this node"""


def on_cuda(on_cpu: dict[str, int], rows: list[dict] | None = None):
    nodes = {CUDA: {"Conv": 140, "ConvTranspose": 4, "Add": 300}, CPU: on_cpu}
    operators = Counter(
        {("", name): number for one in nodes.values() for name, number in one.items()}
    )
    graph = ModelGraph(
        Path("piper.onnx"), (), (), operators, {"ai.onnx": 15}, "pytorch", 63_000_000
    )
    run = rows and {
        "plan": [], "cold_seconds": 3.9, "warm_seconds": 0.05, "runs": 30, "executed": rows,
        "activity": {"cpu_percent": 96.0, "fault": "", "gpus": {
            "0: NVIDIA GeForce MX230": {"busy_percent": 71.0, "used_bytes": 512_000_000}}},
    }  # fmt: skip
    told = {"version": "1.31.1", "nodes": nodes, "load_seconds": 1.2, "import_bytes": 60_000_000,
            "loaded_bytes": 400_000_000, "peak_bytes": 700_000_000, "run": run}  # fmt: skip
    placing = NodePlacement((CUDA, CPU), nodes)
    placed = status(
        ProviderRequest("cuda"), ProviderRequest("cuda"), placing, ProviderVerdict(True)
    )
    return explained(graph, placed, told, LOG)


def test_document_000s_question_is_answered_yes() -> None:
    text = as_text(on_cuda({"Shape": 80, "Gather": 120, "Slice": 60, "Concat": 70}))
    assert "Runs on cuda:0 (CUDAExecutionProvider)." in text
    assert "Is that normal?\n  Yes, that is normal: what carries the work is on the acc" in text
    assert "444 on CUDAExecutionProvider, 330 on CPUExecutionProvider" in text
    assert "28 copies" in text and "2 of them ONNX Runtime took back" in text


def test_a_convolution_on_the_cpu_is_answered_no_and_stands_first() -> None:
    rows = [{"provider": CPU, "operator": "Slice", "times": 60, "seconds": 0.001, "largest": 4},
            {"provider": CPU, "operator": "ConvTranspose", "times": 2, "seconds": 0.02,
             "largest": 2_000_000},
            {"provider": CUDA, "operator": "Conv", "times": 140, "seconds": 0.021,
             "largest": 2_000_000}]  # fmt: skip
    found = on_cuda({"Slice": 60, "ConvTranspose": 2}, rows)
    text = as_text(found)
    assert "No, not all of it is normal: ConvTranspose (2) should not be on the CPU." in text
    assert text.index("NO  ConvTranspose (2)") < text.index("ok  Slice (60)")
    assert "First run 3.90 s, then 50 ms (median of 30)." in text
    assert "CPUExecutionProvider 50 %, CUDAExecutionProvider 50 %" in text
    assert "NVIDIA GeForce MX230 71 % busy at most, 512 MB in use" in " ".join(text.split())
    told = json.loads(as_json(found))
    assert told["copies"] == 28 and len(told["forced_to_cpu"]) == 2
    assert [one["normal"] for one in told["on_cpu"]] == ["no", "yes"]
    assert told["status"]["reason_code"] == "heavy_on_cpu"


def test_copies_are_as_warned_of_else_as_run() -> None:
    rows = ({"operator": "MemcpyToHost", "times": 3}, {"operator": "MemcpyFromHost", "times": 2},
            {"operator": "Conv", "times": 9})  # fmt: skip
    assert (copies(LOG, rows), copies("", rows), copies("", ())) == (28, 5, 0)


def test_answers() -> None:
    yes, no, unclear = (judge(name, 1, LARGE) for name in ("If", "Conv", "Slice"))
    assert answer([], 0) == "Nothing runs on an accelerator."
    assert answer([], 5) == "Every node is on the accelerator."
    assert answer([yes], 5).startswith("Yes")
    assert answer([yes, unclear], 5).startswith("Mostly")
    assert answer([yes, unclear, no], 5).startswith("No")


def test_a_forecast_counts_what_a_gpu_would_take() -> None:
    operators = {"Conv": 4, "Relu": 4, "Shape": 3, "MatMulInteger": 2}
    assert forecast(operators) == {"gpu": 8, "either": 5}


def test_a_profile_is_counted_by_its_last_run() -> None:
    def node(ts: int, provider: str, operator: str, shape: list[int]) -> dict:
        return {"cat": "Node", "name": f"{operator}_kernel_time", "ts": ts, "dur": 500, "args": {
            "provider": provider, "op_name": operator, "input_type_shape": [{"float": shape}],
            "output_type_shape": [{"int64": [2]}]}}  # fmt: skip

    events = [
        {"cat": "Session", "name": "model_loading_uri", "ts": 0, "dur": 9, "args": {}},
        node(12, CPU, "Conv", [1, 3, 99, 99]), {"cat": "Session", "name": "model_run", "ts": 10,
                                                "dur": 5, "args": {}},
        node(22, CPU, "Shape", [1, 3, 8, 8]), node(23, CUDA, "Conv", [1, 3, 8, 8]),
        node(24, CPU, "Shape", [4]), {"cat": "Node", "name": "fence", "ts": 25, "dur": 1,
                                      "args": {}},
        {"cat": "Session", "name": "model_run", "ts": 20, "dur": 6, "args": {}},
    ]  # fmt: skip
    assert executed(events) == [
        {"provider": CPU, "operator": "Shape", "times": 2, "seconds": 0.001, "largest": 192},
        {"provider": CUDA, "operator": "Conv", "times": 1, "seconds": 0.0005, "largest": 192},
    ]
