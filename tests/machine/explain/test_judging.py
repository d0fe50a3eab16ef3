"""Whether an operator's place on the CPU is normal, and how that is told."""

import pytest

from machine.explain.judging import Normality, OperatorRun, answer, forecast, judge

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
