"""What the vocoder is trained on."""

import math

import torch

from demo_voice.vocoder import mel_distance


def test_the_distance_hears_pitch_and_loudness_but_no_phase():
    time = torch.arange(12_000) / 24_000

    def tone(hertz: float, loud: float = 0.3, phase: float = 0.0) -> torch.Tensor:
        return loud * torch.sin(2 * math.pi * hertz * time + phase)[None]

    moved = mel_distance(tone(220), tone(220, phase=1.0))
    assert moved < 0.25 * mel_distance(tone(220), tone(330))
    assert moved < 0.25 * mel_distance(tone(220), tone(220, loud=0.1))
