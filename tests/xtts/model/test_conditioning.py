"""The conditioning of references of different lengths: padding and packing do not change it."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from xtts.model import casting, training
from xtts.model.conditioning import MEL_BANDS, ConditioningEncoder, PerceiverResampler
from xtts.model.shapes import NUM_LATENTS
from xtts.model.training import packed_conditioning_latents
from xtts.model.varlen import VarlenLayout

WIDTH, FRAMES = 32, (7, 12, 4)
Parts = tuple[ConditioningEncoder, PerceiverResampler]


@pytest.fixture
def parts() -> Parts:
    torch.manual_seed(0)
    made = ConditioningEncoder(WIDTH, heads=2, blocks=2), PerceiverResampler(WIDTH)
    for part in made:
        for weight in part.parameters():
            torch.nn.init.normal_(weight, std=0.1)
    return made


def mels() -> list[torch.Tensor]:
    made = torch.Generator().manual_seed(1)
    return [torch.randn(MEL_BANDS, frames, generator=made) for frames in FRAMES]


@torch.no_grad()
def alone(parts: Parts) -> torch.Tensor:
    encoder, perceiver = parts
    return torch.cat([perceiver(encoder(mel[None]).transpose(1, 2)) for mel in mels()])


@torch.no_grad()
def test_padding_is_not_heard(parts):
    padded = torch.full((len(FRAMES), MEL_BANDS, max(FRAMES)), 9.0)
    for row, mel in zip(padded, mels(), strict=True):
        row[:, : mel.shape[1]] = mel
    gpt: Any = SimpleNamespace(conditioning_encoder=parts[0], conditioning_perceiver=parts[1])
    latents = training.latents_of_mels(gpt, padded, VarlenLayout.of(FRAMES))
    assert latents.shape == (len(FRAMES), NUM_LATENTS, WIDTH)
    assert torch.allclose(latents, alone(parts), atol=1e-5)


@torch.no_grad()
def test_references_packed_behind_each_other_say_what_each_says_alone(parts):
    packed = torch.cat([mel.t() for mel in mels()])
    latents = packed_conditioning_latents(*parts, packed, VarlenLayout.of(FRAMES))
    assert torch.allclose(latents, alone(parts), atol=1e-5)


def test_gradients_of_packed_references_are_those_of_each_alone(parts, monkeypatch):
    """For weights and mels, with the explicit gradient that a GPU uses for the norm of clips:
    within 2e-6 of the largest, in float32."""
    packed = torch.cat([mel.t() for mel in mels()]).requires_grad_()
    drawn = torch.randn(len(FRAMES), NUM_LATENTS, WIDTH, generator=torch.Generator().manual_seed(2))
    weights = [packed, *(weight for part in parts for weight in part.parameters())]
    gradients = []
    for per_clip in (True, False):
        monkeypatch.setattr(casting, "launches_matter", lambda _, answer=not per_clip: answer)
        latents = packed_conditioning_latents(*parts, packed, VarlenLayout.of(FRAMES))
        gradients.append(torch.autograd.grad((latents * drawn).sum(), weights))
    for packed_gradient, other in zip(*gradients, strict=True):
        assert float((packed_gradient - other).abs().max()) <= 2e-6 * max(
            1.0, float(packed_gradient.abs().max())
        )
