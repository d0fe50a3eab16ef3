"""An eager optimizer steps like torch's, and does not import torch's compiler."""

import subprocess
import sys

import pytest
import torch

from xtts.eager_optimizer import eager

WITHOUT_COMPILER = """
import sys, torch
from xtts.eager_optimizer import eager
weight = torch.nn.Parameter(torch.ones(3))
optimizer = eager(torch.optim.AdamW)([weight], fused=True)
for _ in range(2):
    optimizer.zero_grad()
    weight.square().sum().backward()
    optimizer.step()
optimizer.load_state_dict(optimizer.state_dict())
print("torch._dynamo" in sys.modules, "torch._inductor" in sys.modules)
"""


def test_no_compiler_is_imported():
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_COMPILER], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "False"]


@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.Adam])
@pytest.mark.parametrize("hooked", [False, True])
def test_steps_and_states_are_those_of_torch(kind, hooked):
    """Even if torch has put its profiler's hook around the original's step."""
    if hooked:
        kind([torch.nn.Parameter(torch.ones(1))])
    weights = [torch.nn.Parameter(torch.randn(5, generator=torch.manual_seed(0))) for _ in "ab"]
    both = [
        optimizer([weight], lr=0.1) for optimizer, weight in zip((kind, eager(kind)), weights, strict=True)
    ]
    assert isinstance(both[1], kind)
    for _ in range(3):
        for optimizer, weight in zip(both, weights, strict=True):
            optimizer.zero_grad()
            (weight**3).sum().backward()
            optimizer.step()
    assert torch.equal(*weights)
    first, second = (optimizer.state_dict() for optimizer in both)
    assert first["param_groups"] == second["param_groups"]
    assert all(torch.equal(state, second["state"][0][name]) for name, state in first["state"][0].items())
