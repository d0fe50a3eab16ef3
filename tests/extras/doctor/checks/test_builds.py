"""Findings on torch's build, on its libraries and on hidden GPUs."""

import pytest

from extras.common.readings.snapshot import Container, Driver, MachineSettings, Managed, Nodes
from extras.doctor.checks.builds import compute_mode, library_path, visible_gpus
from extras.doctor.checks.builds import torch_build as judge_torch
from extras.doctor.finding import Severity
from tests.extras.doctor.simulated import ALL_NODES, computer, gpu, managed, torch_build

LOADED = Driver("580.95.05", libcuda="/usr/lib/libcuda.so.1")


@pytest.mark.parametrize(
    ("value", "device", "status"),
    [
        ("0", "auto", Severity.OK),
        ("GPU-5ac1", "auto", Severity.OK),
        ("", "auto", Severity.WARN),
        ("-1", "auto", Severity.WARN),
        ("7,0", "auto", Severity.WARN),  # CUDA stops at the first missing one
        ("-1", "cuda", Severity.FAIL),
    ],
)
def test_hidden_gpus(value, device, status):
    found = visible_gpus({"CUDA_VISIBLE_DEVICES": value}, ALL_NODES, MachineSettings(device=device))
    assert found and found.status is status


def test_a_variable_that_is_not_set_hides_nothing():
    assert visible_gpus({}, ALL_NODES, MachineSettings()) is None
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": ""}, Nodes(), MachineSettings()) is None


def test_a_build_without_cuda_beside_a_gpu():
    plain = torch_build(version="2.11.0+cpu", cuda="", architectures=(), libraries={})
    found = judge_torch(plain, ALL_NODES, managed(), LOADED, Container())
    assert found.status is Severity.WARN and "TORCH_BACKEND=cu130" in found.fix
    assert judge_torch(plain, Nodes(), Managed(), Driver(), Container()).status is Severity.OK


def test_foreign_libraries_are_a_warning_until_something_fails():
    build = torch_build(libraries={"libcufft.so.12": ("/opt/cuda/lib64/libcufft.so.12",)})
    found = library_path(build, {"LD_PRELOAD": "/opt/x.so"}, computer(gpu()))
    assert found and found.status is Severity.WARN
    assert "LD_PRELOAD=/opt/x.so" in found.evidence and "env -u LD_LIBRARY_PATH" in found.fix
    same_beginning = torch_build(
        libraries={"libcufft.so.12": ("/own-other/libcufft.so.12",)}, folders=("/own",)
    )
    found = library_path(same_beginning, {}, computer())
    assert found and found.status is Severity.WARN


def test_prohibited_is_worse_than_exclusive():
    found = compute_mode(managed(mode="Prohibited"))
    assert found and found.status is Severity.FAIL and "-c DEFAULT" in found.fix
