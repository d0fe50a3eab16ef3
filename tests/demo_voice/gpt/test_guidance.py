"""A voice that stays finite: what the perceiver makes of a recording is held near the size of 1."""

import torch

from demo_voice.gpt.guidance import Calm
from demo_voice.recipe import SHORT
from xtts.model.gpt import new_gpt
from xtts.model.loading import load_model
from xtts.voices.base_models import DEMO

MEL = torch.randn(1, 80, 120, generator=torch.Generator().manual_seed(1)) - 2


def test_what_is_of_the_size_of_1_is_left_alone() -> None:
    gpt = new_gpt(SHORT.gpt, 1)
    calm = Calm(gpt)
    gpt.conditioning_latents(MEL)
    assert calm.loss() == 0


def test_what_grows_is_held_back() -> None:
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


def test_the_embedded_voice_hears_who_speaks() -> None:
    """It did not once: see `Calm`."""
    gpt = load_model(DEMO).gpt
    with torch.no_grad():
        low, high = gpt.conditioning_latents(MEL), gpt.conditioning_latents(MEL + 1)
    assert (low - high).norm() > 0.01 * low.norm() > 0
