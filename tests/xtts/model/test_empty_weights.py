"""Modules without weights: shapes only, and without heavy imports."""

import subprocess
import sys

import pytest
import torch

from xtts.model.empty_weights import without_weights
from xtts.model.gpt import GPT
from xtts.model.shapes import GPTShape

SMALL = GPTShape(text_ids=20, text_start=18, layers=1, width=64, heads=1, audio_ids=10)


def test_a_module_has_shapes_and_no_values():
    with without_weights():
        gpt = GPT(SMALL)
    assert {parameter.device.type for parameter in gpt.parameters()} == {"meta"}
    assert gpt.text_head.weight.shape == (20, 64)


def test_modules_built_afterwards_are_initialised_as_ever():
    with without_weights():
        GPT(SMALL)
    torch.manual_seed(0)
    assert torch.nn.Linear(4, 4).weight.abs().max() > 0


@pytest.mark.parametrize(
    "made",
    [
        "from tests.xtts.model.test_empty_weights import SMALL\n"
        "from xtts.model.gpt import GPT\nmake = lambda: GPT(SMALL)",
        # Coqui's speaker encoder, which draws with kaiming_normal_ (`xtts.model.loading` builds
        # it empty).
        "import torch; w = lambda: torch.nn.Linear(4, 4).weight\n"
        "make = lambda: torch.nn.init.kaiming_normal_(w(), mode='fan_out', nonlinearity='relu')",
        "import torch; make = lambda: torch.nn.init.xavier_uniform_(torch.nn.Linear(4, 4).weight)",
    ],
)
@pytest.mark.slow
def test_torchs_compiler_is_not_imported_for_it(made):
    """Found by timing: 870 modules and several seconds at each start of trainer and worker."""
    program = (
        f"import sys\n{made}\nfrom xtts.model.empty_weights import without_weights\n"
        "with without_weights(): make()\n"
        "sys.exit('sympy' in sys.modules or 'torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
