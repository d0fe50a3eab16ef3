"""Findings on the driver and its device nodes."""

from dataclasses import replace

import pytest

from extras.common.readings.snapshot import Container, Driver, Graphics, Managed
from extras.doctor.checks.drivers import device_nodes, driver
from extras.doctor.finding import Severity
from tests.extras.doctor.simulated import ALL_NODES, managed

LOADED = Driver("580.95.05", libcuda="/usr/lib/libcuda.so.1")


@pytest.mark.parametrize(
    ("fault", "inside", "words"),
    [
        ("Failed to initialize NVML: Driver/library version mismatch", False, "Reboot"),
        ("Failed to initialize NVML: Unknown Error", True, "--force-recreate"),
        ("Unable to determine the device handle for GPU0: GPU is lost.", False, "Reboot"),
    ],
)
def test_a_driver_that_does_not_answer(fault, inside, words):
    told = Managed((), "nvidia-smi", fault)
    found = driver(LOADED, Graphics(), ALL_NODES, told, Container(inside))
    assert found and found.status is Severity.FAIL
    assert words in found.fix and fault in found.evidence


def test_half_a_driver():
    half = replace(LOADED, libcuda="", libcuda_fault="libcuda.so.1: cannot open")
    outside = driver(half, Graphics(), ALL_NODES, managed(), Container())
    inside = driver(half, Graphics(), ALL_NODES, managed(), Container(True))
    assert outside and inside and outside.evidence == half.libcuda_fault
    assert "NVIDIA_DRIVER_CAPABILITIES" in inside.fix


def test_nodes_that_are_not_ours_to_open():
    shut = replace(ALL_NODES, closed=("nvidia0",))
    found = device_nodes(LOADED, shut, Container())
    assert found and found.status is Severity.FAIL and "usermod" in found.fix
