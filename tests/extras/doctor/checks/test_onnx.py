"""Findings on ONNX Runtime with a GPU."""

import pytest

from extras.common.readings.snapshot import Container, OnnxRuntime
from extras.doctor.checks.onnx import onnx_runtime
from extras.doctor.finding import Severity
from tests.extras.doctor.simulated import ALL_NODES, torch_build


@pytest.mark.parametrize(
    ("packages", "cuda", "alone", "beside", "status", "words"),
    [
        ({}, "", "", "", Severity.OK, "not installed"),
        ({"onnxruntime-gpu": "1"}, "13.0", "", "", Severity.OK, "CUDA 13.0"),
        ({"onnxruntime-gpu": "1"}, "13.0", "libcudnn.so.9: cannot open", "", Severity.OK, "imported"),
        ({"onnxruntime-gpu": "1"}, "13.0", "x", "libcuda.so.1: cannot open", Severity.WARN, "driver"),
        (
            {"onnxruntime-gpu": "1"},
            "13.0",
            "x",
            "libcudnn.so.9: cannot open",
            Severity.WARN,
            "without a message",
        ),
        ({"onnxruntime-gpu": "1"}, "12.8", "", "", Severity.WARN, "lists CUDA"),
        ({"onnxruntime": "1", "onnxruntime-gpu": "1"}, "13.0", "", "", Severity.WARN, "undefined"),
    ],
)
def test_onnx_runtime_beside_a_gpu(packages, cuda, alone, beside, status, words):
    found = onnx_runtime(OnnxRuntime(packages, cuda, alone, beside), torch_build(), ALL_NODES, Container())
    assert found.status is status
    assert words in found.observed + found.meaning
