"""Whether it is normal that an operator runs on the CPU, and how the report says so."""

from dataclasses import replace

import pytest

from extras.common.onnxruntime.placement import SessionStatus
from extras.common.onnxruntime.providers import CPU, CUDA
from extras.doctor.explain.cpu_operators import (
    Judgement,
    forecast_placement,
    judge_operator,
    placement_verdict,
)

SMALL, LARGE = 12, 1_000_000


@pytest.mark.parametrize(
    ("operator", "largest", "normal", "told"),
    [
        ("Shape", None, "yes", "computes shapes"),
        ("Gather", SMALL, "yes", "at most 12 values"),
        ("Concat", None, "yes", "shapes"),
        ("Slice", LARGE, "unclear", "moves 1,000,000 values"),
        ("Conv", None, "no", "compute-heavy"),
        ("Conv", SMALL, "no", "compute-heavy"),
        ("ConvTranspose", LARGE, "no", "belongs on the accelerator"),
        ("LSTM", None, "no", "compute-heavy"),
        ("MatMulInteger", LARGE, "no", "int8 is for the CPU"),
        ("If", None, "yes", "control flow"),
        ("Loop", LARGE, "yes", "control flow"),
        ("NonMaxSuppression", LARGE, "yes", "returns few values"),
        ("RandomNormalLike", SMALL, "yes", "random"),
        ("Mul", SMALL, "yes", "faster here"),
        ("Mul", LARGE, "no", "forces two copies"),
        ("Mul", None, "unclear", "use --run"),
        ("SomethingNew", None, "unclear", "use --run"),
        ("StringNormalizer", None, "yes", "for the CPU only"),
        ("TreeEnsembleClassifier", LARGE, "yes", ""),
    ],
)
def test_normal_or_not(operator, largest, normal, told):
    found, why = judge_operator(operator, largest, "ai.onnx.ml" if "Tree" in operator else "")
    assert found == normal and told in why


def test_answers():
    yes, no, unclear = (Judgement(name, 1, *judge_operator(name, LARGE)) for name in ("If", "Conv", "Slice"))
    placed = SessionStatus("cuda:0", CUDA, CUDA, accelerator_nodes=5)
    here = SessionStatus("cpu", CPU, CPU, accelerator_nodes=0)
    assert placement_verdict(here, []).startswith("Yes: the CPU was requested")
    assert placement_verdict(replace(here, message="Why."), []).startswith("No: an accelerator")
    assert placement_verdict(placed, []) == "Yes: every node is on the accelerator."
    assert placement_verdict(placed, [yes]).startswith("Yes")
    assert placement_verdict(placed, [yes, unclear]).startswith("Mostly")
    assert placement_verdict(placed, [yes, unclear, no]).startswith("No")


def test_a_forecast_counts_what_a_gpu_would_take():
    operators = {"Conv": 4, "Relu": 4, "Shape": 3, "MatMulInteger": 2}
    assert forecast_placement(operators) == {"gpu": 8, "either": 5}
