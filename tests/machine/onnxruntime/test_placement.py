"""What is said of where the nodes of a session are."""

from machine.onnxruntime.evidence import NodePlacement
from machine.onnxruntime.placement import ProviderVerdict, status
from machine.onnxruntime.providers import CPU, CUDA, ProviderRequest


def test_what_carries_the_work_on_the_cpu_is_told_although_the_provider_is_right() -> None:
    nodes = {CUDA: {"Conv": 30, "Add": 4}, CPU: {"Shape": 6, "Gather": 6, "ConvTranspose": 2}}
    found = status(
        ProviderRequest("cuda"),
        ProviderRequest("cuda"),
        NodePlacement((CUDA, CPU), nodes),
        ProviderVerdict(True),
    )
    assert (found.device, found.reason_code) == ("cuda:0", "heavy_on_cpu")
    assert "34 of 48" in found.message and "ConvTranspose (2)" in found.message
    assert (found.cpu_nodes, found.accelerator_nodes) == (14, 34)


def test_shape_arithmetic_on_the_cpu_is_normal() -> None:
    nodes = {CUDA: {"Conv": 3}, CPU: {"Shape": 60, "Gather": 60, "Concat": 40}}
    found = status(
        ProviderRequest("cuda"),
        ProviderRequest("cuda"),
        NodePlacement((CUDA, CPU), nodes),
        ProviderVerdict(True),
    )
    assert (found.execution_provider, found.message) == (CUDA, "")


def test_a_provider_that_takes_no_node_is_the_cpu() -> None:
    placing = NodePlacement((CUDA, CPU), {CPU: {"Conv": 3}})
    found = status(ProviderRequest("cuda"), ProviderRequest("cuda"), placing, ProviderVerdict(True))
    assert (found.device, found.execution_provider) == ("cpu", CPU)
    assert found.reason_code == "nothing_placed"


def test_a_provider_that_is_gone_after_the_check_is_told() -> None:
    found = status(
        ProviderRequest("cuda"),
        ProviderRequest("cuda"),
        NodePlacement((CPU,), None),
        ProviderVerdict(True),
    )
    assert (found.device, found.reason_code, found.cpu_nodes) == ("cpu", "lost", None)
