"""What is known of a GPU, as plain values: what it is good for, and the way through JSON."""

import json
from dataclasses import replace

import pytest

from machine.devices.health import (
    CLEAN_LIBRARY_PATH,
    CUDNN_OFF,
    OPERATIONS,
    GpuHealth,
    Outcome,
    ProbeVariant,
    read_as,
)
from tests.machines import SOUND, failing


@pytest.mark.parametrize("bad", OPERATIONS)
def test_what_one_bad_operation_costs(bad):
    gpu = failing(bad)
    for_both = "allocation resample convolution matrix_product attention_fp32".split()
    assert gpu.trains() == (bad not in [*for_both, "train_step"])
    assert gpu.speaks() == (bad not in [*for_both, "sampling"])
    assert gpu.failed == {bad} and gpu.verdict == f"{bad} failed."


def test_without_cudnn_some_operations_pass():
    off = (ProbeVariant(CUDNN_OFF, False, passed=("convolution",)),)
    assert failing("convolution", variants=off).trains()
    assert failing("convolution", variants=off).without_cudnn == {"convolution"}
    assert failing("convolution", "fft", variants=off).speaks()
    assert not failing("convolution", "matrix_product", variants=off).trains()
    assert not failing("convolution", variants=(ProbeVariant(CUDNN_OFF, False),)).trains()
    assert failing("fft", variants=off).without_cudnn == frozenset()
    assert failing("fft", variants=(ProbeVariant(CLEAN_LIBRARY_PATH, True),)).with_clean_libraries


def test_what_cudnn_alone_has_ended_goes_on_without_it():
    crashed = replace(failing("convolution"), outcome=Outcome.CRASH)
    assert not crashed.trains()
    off = (ProbeVariant(CUDNN_OFF, True, passed=("convolution", "train_step")),)
    assert replace(crashed, variants=off).trains() and replace(crashed, variants=off).speaks()


@pytest.mark.parametrize("outcome", [Outcome.HANG, Outcome.CRASH])
def test_what_has_no_end_without_cudnn_either_is_good_for_nothing(outcome):
    """A check that hung has no result of any operation, so none has failed."""
    off = ProbeVariant(CUDNN_OFF, False, reason="the check hung.")
    gpu = replace(SOUND, outcome=outcome, operations=(), variants=(off,))
    good = (gpu.trains(), gpu.speaks(), gpu.computes_features(), gpu.speaks_in_own_process())
    assert good == (False,) * 4


@pytest.mark.parametrize("outcome", [one for one in Outcome if one not in ("ok", "degraded")])
def test_a_check_without_an_end_is_good_for_nothing(outcome):
    gpu = replace(SOUND, outcome=outcome, reason="No.")
    assert not gpu.trains() and not gpu.speaks() and gpu.verdict == "No."


def test_through_json_and_back():
    gpu = replace(
        failing("fft", variants=(ProbeVariant("GPU 1", True, "Set it.", "", ("fft",)),)),
        libraries={"libcufft.so.12": "/opt/libcufft.so.12"}, free_bytes=5, exclusive=True,
    )  # fmt: skip
    assert read_as(GpuHealth, json.loads(json.dumps(gpu.as_dict()))) == gpu
    for broken in ({}, {**gpu.as_dict(), "outcome": "fine"}, {**gpu.as_dict(), "colour": "red"}):
        with pytest.raises(ValueError):
            read_as(GpuHealth, broken)


def test_a_gpu_without_a_fault_says_nothing():
    assert SOUND.verdict == "" and not SOUND.failed and SOUND.trains() and SOUND.speaks()
