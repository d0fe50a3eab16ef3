"""Tests that need a GPU are skipped without one, with the reason."""

import pytest
import torch

from machine.devices.current_gpu import make_current
from machine.devices.selection import has_gpu_node


@pytest.fixture(autouse=True)
def device() -> str:
    """See `first_gpu`."""
    return first_gpu()


def first_gpu() -> str:
    """The first GPU, made current."""
    if not has_gpu_node() or not torch.cuda.is_available():
        pytest.skip("This needs an NVIDIA GPU, and this machine has none that torch can use.")
    make_current("cuda:0")
    return "cuda:0"
