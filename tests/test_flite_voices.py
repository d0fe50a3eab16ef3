"""The distance of recordings, on sounds with known properties."""

import math

import pytest
import torch
from torch import Tensor

from tests import flite_voices


def buzz(brightness: float) -> Tensor:
    """A buzz of a second at 120 Hz. `brightness` is the exponent with which its overtones fall."""
    time = torch.arange(flite_voices.RATE) / flite_voices.RATE
    tones = sum(torch.sin(2 * math.pi * 120 * n * time) / n**brightness for n in range(1, 58))
    noise = torch.randn(len(time), generator=torch.Generator().manual_seed(1))
    return 0.1 * tones * (1.2 + torch.sin(9 * time + 1)) + 0.001 * noise


@pytest.mark.slow
def test_a_distance_ignores_tempo_and_sees_timbre():
    one, other = buzz(1.0), buzz(2.0)
    slower = torch.cat((one[:8000], one[4000:]))
    assert flite_voices.distance(one, one) < 0.1
    assert flite_voices.distance(one, slower) < flite_voices.distance(one, other) / 2
