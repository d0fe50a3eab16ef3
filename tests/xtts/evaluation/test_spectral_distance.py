"""A distance between sounds that a gradient can follow."""

import math

import torch

from xtts.evaluation.spectral_distance import spectral_distance


def noise(seed: int) -> torch.Tensor:
    return 0.1 * torch.randn(1, 24_000, generator=torch.Generator().manual_seed(seed))


def test_a_sound_is_not_away_from_itself_and_timbre_is_seen():
    sound = noise(0)
    dull = torch.nn.functional.avg_pool1d(sound[None], 5, 1, 2)[0]
    assert float(spectral_distance(sound, sound)) == 0
    assert float(spectral_distance(dull, sound)) > float(spectral_distance(0.9 * sound, sound)) > 0


def test_its_gradient_leads_nearer():
    target, gain = noise(1), torch.tensor(0.5, requires_grad=True)
    before = spectral_distance(gain * target, target)
    before.backward()
    assert gain.grad is not None
    after = spectral_distance((gain.detach() - 0.01 * gain.grad.sign()) * target, target)
    assert after.item() < before.item()


def test_it_hears_pitch_and_loudness_but_no_phase():
    time = torch.arange(12_000) / 24_000

    def tone(hertz: float, loud: float = 0.3, phase: float = 0.0) -> torch.Tensor:
        return loud * torch.sin(2 * math.pi * hertz * time + phase)[None]

    moved = spectral_distance(tone(220), tone(220, phase=1.0))
    assert moved < 0.25 * spectral_distance(tone(220), tone(330))
    assert moved < 0.25 * spectral_distance(tone(220), tone(220, loud=0.1))
