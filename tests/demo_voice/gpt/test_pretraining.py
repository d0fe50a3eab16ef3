"""The GPT's pretraining: what its heads read, a voice that stays finite, and Muon in float32."""

import pytest
import torch
from torch import nn

from demo_voice import stages
from demo_voice.gpt.pretraining import (
    Calm,
    Float32Muon,
    Pupil,
    mean_spectra,
    optimizers,
    orthogonal,
)
from demo_voice.recipe import SHORT
from xtts.model.gpt import new_gpt
from xtts.model.loading import load_model
from xtts.model.packed_batch import pack
from xtts.voices.base_models import DEMO


def test_a_mean_spectrum_leaves_padding_out():
    mels = [torch.full((80, 40), 2.0), torch.full((80, 90), -1.0)]
    tokens, codes = [torch.tensor([5, 6])] * 2, [torch.tensor([1, 2, 3])] * 2
    rows = pack(tokens, codes, mels, SHORT.gpt, stop_input=True)
    found = mean_spectra(rows)
    torch.testing.assert_close(found, torch.tensor([[2.0], [-1.0]]).expand(2, 80))


def test_recordings_start_out_different():
    """Frames are themselves until mixing them pays: two voices are two from the first step on."""
    gpt = Pupil(new_gpt(SHORT.gpt, 1)).gpt
    mel = torch.randn(2, 80, 100, generator=torch.Generator().manual_seed(1)) - 2
    mel[1, :40] += 1
    with torch.no_grad():
        frames = gpt.conditioning_encoder(mel)
        low, high = gpt.conditioning_latents(mel)
    assert (frames[0] - frames[1]).mean(1).norm() > 0.1 * frames[0].mean(1).norm()
    assert (low - high).norm() > 0.01 * low.norm()


MEL = torch.randn(1, 80, 120, generator=torch.Generator().manual_seed(1)) - 2


def test_what_is_of_the_size_of_1_is_left_alone():
    gpt = new_gpt(SHORT.gpt, 1)
    calm = Calm(gpt)
    gpt.conditioning_latents(MEL)
    assert calm.loss() == 0


def test_what_grows_is_held_back():
    gpt = new_gpt(SHORT.gpt, 1)
    calm = Calm(gpt)
    with torch.no_grad():
        gpt.conditioning_perceiver.latents *= 1000
    moving = torch.optim.Adam([gpt.conditioning_perceiver.latents], lr=0.5)
    losses = []
    for _ in range(20):
        gpt.conditioning_latents(MEL)
        loss = calm.loss()
        moving.zero_grad()
        loss.backward()
        moving.step()
        losses.append(float(loss.detach()))
    assert losses[0] > 5
    assert losses[-1] < losses[0] - 0.3


def test_the_embedded_voice_hears_who_speaks():
    """It did not once: see `Calm`."""
    gpt = load_model(DEMO).gpt
    with torch.no_grad():
        low, high = gpt.conditioning_latents(MEL), gpt.conditioning_latents(MEL + 1)
    assert (low - high).norm() > 0.01 * low.norm() > 0


QUINTIC = (3.4445, -4.7750, 2.0315)


@pytest.mark.parametrize("shape", [(24, 60), (60, 24), (24, 24)])
def test_its_steps_are_torch_s(shape):
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


def test_every_direction_weighs_alike():
    matrix = torch.diag(torch.tensor([10.0, 1.0, 0.1, 0.02])).repeat(1, 3)
    values = torch.linalg.svdvals(orthogonal(matrix, QUINTIC, 10, 1e-7))
    assert 0.6 < values.min() and values.max() < 1.3


@pytest.mark.parametrize(("quick", "kind"), [(True, torch.optim.Muon), (False, Float32Muon)])
def test_the_processor_decides(monkeypatch, quick, kind):
    monkeypatch.setattr(stages, "has_bf16", lambda: quick)
    assert type(optimizers(Pupil(new_gpt(SHORT.gpt, 1)), 1e-3)["muon"]) is kind
