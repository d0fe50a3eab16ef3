"""What is known of a GPU, as plain values: what it is good for, and the way through JSON."""

import json
from dataclasses import replace

import pytest

from machine.devices.health import (
    CLEAN_LIBRARY_PATH,
    CUDNN_OFF,
    OPERATIONS,
    GpuHealth,
    OperationVerdict,
    Outcome,
    ProbeVariant,
    read_as,
)

GPU = GpuHealth(0, "RTX 3090", (8, 6), 24 << 30)


def degraded(*bad: str, variants: tuple[ProbeVariant, ...] = ()) -> GpuHealth:
    """A GPU on which every operation passed but these."""
    return replace(
        GPU,
        outcome=Outcome.DEGRADED,
        operations=tuple(OperationVerdict(name, name not in bad, 0.0, 1e-5) for name in OPERATIONS),
        reason=f"{', '.join(bad)}: bad.",
        variants=variants,
    )


@pytest.mark.parametrize(
    ("bad", "trains", "speaks"),
    [
        ("allocation", False, False),
        ("resample", False, False),
        ("fft", True, True),
        ("convolution", False, False),
        ("matrix_product", False, False),
        ("attention_fp32", False, False),
        ("attention_fp16", True, True),
        ("attention_bf16", True, True),
        ("sampling", True, False),
        ("train_step", False, True),
        ("graph", True, True),
    ],
)
def test_what_one_bad_operation_costs(bad: str, trains: bool, speaks: bool) -> None:
    gpu = degraded(bad)
    assert (gpu.trains(), gpu.speaks()) == (trains, speaks)
    assert gpu.failed == {bad} and gpu.verdict == f"{bad}: bad."


def test_every_operation_is_judged_above() -> None:
    mark = next(one for one in test_what_one_bad_operation_costs.pytestmark)  # type: ignore[attr-defined]
    assert tuple(row[0] for row in mark.args[1]) == OPERATIONS


def test_without_cudnn_some_operations_pass() -> None:
    off = (ProbeVariant(CUDNN_OFF, False, passed=("convolution",)),)
    assert degraded("convolution", variants=off).trains()
    assert degraded("convolution", variants=off).without_cudnn == {"convolution"}
    assert degraded("convolution", "fft", variants=off).speaks()
    assert not degraded("convolution", "matrix_product", variants=off).trains()
    assert not degraded("convolution", variants=(ProbeVariant(CUDNN_OFF, False),)).trains()
    assert degraded("fft", variants=off).without_cudnn == frozenset()
    assert degraded("fft", variants=(ProbeVariant(CLEAN_LIBRARY_PATH, True),)).with_clean_libraries


def test_what_cudnn_alone_has_ended_goes_on_without_it() -> None:
    crashed = replace(degraded("convolution"), outcome=Outcome.CRASH)
    assert not crashed.trains()
    off = (ProbeVariant(CUDNN_OFF, True, passed=("convolution", "train_step")),)
    assert replace(crashed, variants=off).trains() and replace(crashed, variants=off).speaks()


@pytest.mark.parametrize("outcome", [one for one in Outcome if one not in ("ok", "degraded")])
def test_a_check_without_an_end_is_good_for_nothing(outcome: Outcome) -> None:
    gpu = replace(GPU, outcome=outcome, reason="No.")
    assert not gpu.trains() and not gpu.speaks() and gpu.verdict == "No."


def test_through_json_and_back() -> None:
    gpu = replace(
        degraded("fft", variants=(ProbeVariant("GPU 1", True, "Set it.", "", ("fft",)),)),
        libraries={"libcufft.so.12": "/opt/libcufft.so.12"}, free_bytes=5, exclusive=True,
    )  # fmt: skip
    assert read_as(GpuHealth, json.loads(json.dumps(gpu.as_dict()))) == gpu
    for broken in ({}, {**gpu.as_dict(), "outcome": "fine"}, {**gpu.as_dict(), "colour": "red"}):
        with pytest.raises(ValueError):
            read_as(GpuHealth, broken)


def test_a_gpu_without_a_fault_says_nothing() -> None:
    assert GPU.verdict == "" and GPU.failed == frozenset() and GPU.trains() and GPU.speaks()
