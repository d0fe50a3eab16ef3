"""Muon in float32: torch's step, where torch's own takes 45 times as long."""

import pytest
import torch
from torch import nn

from demo_voice import stages
from demo_voice.gpt.muon import Float32Muon, orthogonal
from demo_voice.gpt.pretraining import Pupil, optimizers
from demo_voice.recipe import SHORT
from xtts.model.gpt import new_gpt

QUINTIC = (3.4445, -4.7750, 2.0315)


@pytest.mark.parametrize("shape", [(24, 60), (60, 24), (24, 24)])
def test_its_steps_are_torch_s(shape: tuple[int, int]) -> None:
    start = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    moved = {}
    for kind in (torch.optim.Muon, Float32Muon):
        weight = nn.Parameter(start.clone())
        muon = kind([weight], lr=0.02, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
        for step in range(3):
            weight.grad = torch.randn(shape, generator=torch.Generator().manual_seed(2 + step))
            muon.step()
        moved[kind] = weight.detach() - start
        again = torch.optim.Muon([nn.Parameter(start.clone())], adjust_lr_fn="match_rms_adamw")
        again.load_state_dict(muon.state_dict())  # a snapshot goes on under the other
    torch_s, ours = moved[torch.optim.Muon], moved[Float32Muon]
    assert (ours - torch_s).norm() < 0.02 * torch_s.norm()  # bf16 has 8 bits


def test_every_direction_weighs_alike() -> None:
    matrix = torch.diag(torch.tensor([10.0, 1.0, 0.1, 0.02])).repeat(1, 3)
    values = torch.linalg.svdvals(orthogonal(matrix, QUINTIC, 10, 1e-7))
    assert 0.6 < values.min() and values.max() < 1.3


@pytest.mark.parametrize(("quick", "kind"), [(True, torch.optim.Muon), (False, Float32Muon)])
def test_the_processor_decides(monkeypatch: pytest.MonkeyPatch, quick: bool, kind: type) -> None:
    monkeypatch.setattr(stages, "has_bf16", lambda: quick)
    assert type(optimizers(Pupil(new_gpt(SHORT.gpt, 1)), 1e-3)["muon"]) is kind
