"""The vocoder's first layer, from widened mels to latents, without losing what it knows; and what
it learns from, made ahead."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from train.base.voicing import STEPS_AHEAD, Segments, _ahead, read_latents
from xtts.audio import CODE_RATE, VOCODER_RATE


def test_a_convolution_of_latents_hears_the_mels_that_they_mean() -> None:
    torch.manual_seed(0)
    width, mel, out, codes = 6, 10, 5, 40
    widen, head = nn.Linear(mel, width), nn.Linear(2 * width, mel)
    first = nn.Conv1d(width, out, 7, padding=3)
    with torch.no_grad():
        first.weight[:, :, -2:] = 0.0  # what its farthest taps would need lies beyond the kernel
    # Slow, as latents at a code's pace are not: between two codes lies what interpolation says.
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


def test_segments_are_made_ahead_once_and_in_their_order() -> None:
    made: list[int] = []

    def segments(step: int) -> Segments:
        made.append(step)
        number = torch.tensor(step)
        return Segments(number, number, number)

    count = STEPS_AHEAD + 7
    given = [int(part.inputs) for part in _ahead(segments, iter(range(3, count)), count)]
    assert given == made == list(range(3, count))


def test_segments_that_cannot_be_made_stop_the_step_that_needs_them() -> None:
    def segments(step: int) -> Segments:
        if step == 2:
            raise ValueError("no sound")
        return Segments(*(torch.zeros(1) for _ in range(3)))

    steps = _ahead(segments, iter(range(5)), 5)
    assert next(steps) and next(steps)
    with pytest.raises(ValueError, match="no sound"):
        next(steps)
