"""The report on where the nodes of a session run."""

import pytest

from extras.common.onnxruntime.placement import session_status
from extras.common.onnxruntime.providers import CPU, CUDA, ProviderRequest

HEAVY = {CUDA: {"Conv": 30, "Add": 4}, CPU: {"Shape": 6, "Gather": 6, "ConvTranspose": 2}}
SHAPES = {CUDA: {"Conv": 3}, CPU: {"Shape": 60, "Gather": 60, "Concat": 40}}


@pytest.mark.parametrize(
    ("active", "nodes", "device", "code", "counted", "told"),
    [
        # The heavy operators are on the CPU although the provider is the right one.
        (CUDA, HEAVY, "cuda:0", "heavy_on_cpu", (14, 34), ("34 of 48", "ConvTranspose (2)")),
        # Shape arithmetic on the CPU is normal.
        (CUDA, SHAPES, "cuda:0", "", (160, 3), ()),
        # A provider that takes no node means the CPU.
        (CUDA, {CPU: {"Conv": 3}}, "cpu", "nothing_placed", (3, 0), ("none of this model's 3",)),
        # A provider that disappeared after the check.
        (CPU, None, "cpu", "lost", (None, None), ("Start again",)),
    ],
)
def test_a_session_for_cuda(active, nodes, device, code, counted, told):
    wish = ProviderRequest("cuda")
    found = session_status(wish, wish, active, nodes, None)
    assert (found.device, found.reason_code) == (device, code)
    assert found.execution_provider == (CPU if device == "cpu" else CUDA)
    assert (found.cpu_nodes, found.accelerator_nodes) == counted
    assert bool(found.message) == bool(code) and all(part in found.message for part in told)
