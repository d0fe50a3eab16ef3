"""A timbre on a waveform is the same timbre on its mels, and speech stays about as loud."""

import random

import pytest
import torch

from demo_voice.teachers.timbre import Timbre
from xtts.audio import CODE_RATE, VOCODER_RATE, dvae_mel

STATS = torch.linspace(2.0, 4.5, 80)


def noisy_tones() -> torch.Tensor:
    """A second of 120 Hz and its harmonics, 6 dB an octave down, over a little noise."""
    time = torch.arange(CODE_RATE) / CODE_RATE
    tones = sum(torch.sin(2 * torch.pi * 120 * n * time) / n for n in range(1, 60))
    generator = torch.Generator().manual_seed(1)
    return 0.1 * torch.as_tensor(tones) + 0.01 * torch.randn(CODE_RATE, generator=generator)


def drawn(seed: int) -> Timbre:
    draw = random.Random(seed)
    return next(timbre for timbre in iter(lambda: Timbre.drawn(draw), None) if timbre.ripples)


@pytest.mark.parametrize("seed", range(4))
def test_filtered_mels_are_those_of_the_filtered_sound(seed):
    timbre, wave = drawn(seed), noisy_tones()
    plain, wanted = (dvae_mel(w[None], STATS)[0] for w in (wave, timbre.heard(wave, CODE_RATE)))
    frames = plain[:, 4:84].T.reshape(20, 320)
    found = timbre.mels(frames, STATS).view(80, 80).T
    moved = float((wanted - plain)[:, 4:84].abs().mean())
    assert float((found - wanted[:, 4:84]).abs().mean()) < 0.15 * moved


def test_speech_stays_about_as_loud():
    wave = noisy_tones()
    louder = [drawn(seed).heard(wave, VOCODER_RATE).norm() / wave.norm() for seed in range(8)]
    assert 0.6 < min(louder) and max(louder) < 1.7


def test_half_of_the_rows_keep_their_own_timbre():
    draw = random.Random(3)
    found = [Timbre.drawn(draw) for _ in range(400)]
    assert 160 < sum(not timbre.ripples for timbre in found) < 240
    wave, frames = noisy_tones(), torch.zeros(2, 320)
    assert Timbre().heard(wave, CODE_RATE) is wave and Timbre().mels(frames, STATS) is frames


def test_digital_silence_stays_silence():
    silence = dvae_mel(torch.zeros(1, CODE_RATE), STATS)[0][:, :8].T.reshape(2, 320)
    assert torch.allclose(drawn(1).mels(silence, STATS), silence, atol=1e-6)
