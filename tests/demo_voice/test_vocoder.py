"""The vocoder's first layer is converted from widened mels to latents and keeps its training."""

import torch
from torch import nn
from torch.nn import functional as F

from demo_voice.vocoder import read_latents
from xtts.audio import CODE_RATE, VOCODER_RATE


def test_a_convolution_of_latents_hears_the_mels_that_they_mean():
    torch.manual_seed(0)
    width, mel, out, codes = 6, 10, 5, 40
    widen, head = nn.Linear(mel, width), nn.Linear(2 * width, mel)
    first = nn.Conv1d(width, out, 7, padding=3)
    with torch.no_grad():
        first.weight[:, :, -2:] = 0.0  # the farthest taps would need a larger kernel
    # Slower than real latents at a code's pace, so that interpolation between two codes is
    # accurate.
    latents = torch.cumsum(torch.randn(1, codes, width), dim=1) * 0.1
    after = torch.cat((latents[:, 1:], latents[:, -1:]), dim=1)
    mels = head(torch.cat((latents, after), dim=2))

    def steps(frames: torch.Tensor) -> torch.Tensor:
        ratio = VOCODER_RATE / CODE_RATE
        return F.interpolate(frames.transpose(1, 2), scale_factor=[ratio], mode="linear")

    wanted = first(steps(widen(mels)))[:, :, 6:-6]
    before = first(steps(latents))[:, :, 6:-6]
    read_latents(first, widen, head)
    found = first(steps(latents))[:, :, 6:-6]
    ratio = float((found - wanted).detach().norm() / (before - wanted).detach().norm())
    assert ratio < 0.1
