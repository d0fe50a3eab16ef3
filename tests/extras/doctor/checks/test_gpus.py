"""Findings on the kernel's log and the GPUs."""

import pytest

from extras.common.readings.snapshot import Driver
from extras.doctor.checks.gpus import kernel_log
from extras.doctor.finding import Severity
from tests.extras.doctor.simulated import managed

LOADED = Driver("580.95.05", libcuda="/usr/lib/libcuda.so.1")


@pytest.mark.parametrize(
    ("line", "status", "words"),
    [
        ("NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.", Severity.WARN, "power"),
        ("NVRM: Xid (PCI:0000:01:00): 13, Graphics Exception", Severity.OK, "program"),
        ("NVRM: Xid (PCI:0000:01:00): 9999, something new", Severity.WARN, "fault"),
        ("nothing of the kind", Severity.OK, "no fault"),
    ],
)
def test_the_kernels_last_word(line, status, words):
    found = kernel_log((line,), LOADED, managed())
    assert found and found.status is status
    assert words in found.observed + found.meaning
