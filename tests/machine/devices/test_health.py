"""A GPU's health as plain values: whether it is good enough to use."""

from dataclasses import replace

import pytest

from machine.devices.health import Outcome
from tests.machines import OPERATIONS, SOUND, failing, without_cudnn


@pytest.mark.parametrize("bad", OPERATIONS)
def test_what_one_bad_operation_costs(bad):
    gpu = failing(bad)
    dispensable = bad in ("fft", "attention_fp16", "attention_bf16")
    assert gpu.trains is (dispensable or bad == "sampling")
    assert gpu.speaks is (dispensable or bad == "train_step")
    assert gpu.failed_operations == {bad} and gpu.reason == f"{bad} failed." and gpu.cudnn


def test_without_cudnn_some_operations_pass():
    gpu = without_cudnn("convolution", "train_step")
    assert gpu.works and not gpu.cudnn and not gpu.failed_operations
    assert gpu.reason == "convolution failed. train_step failed."


@pytest.mark.parametrize("outcome", [kind for kind in Outcome if kind not in ("ok", "degraded")])
def test_a_check_without_an_end_is_good_for_nothing(outcome):
    """A check that hung has no results, so no operation failed either."""
    for operations in (SOUND.operations, ()):
        gpu = replace(SOUND, outcome=outcome, reason="No.", operations=operations)
        assert not gpu.trains and not gpu.speaks and gpu.reason == "No."


def test_a_gpu_without_a_fault_says_nothing():
    assert SOUND.reason == "" and not SOUND.failed_operations and SOUND.works and SOUND.cudnn
