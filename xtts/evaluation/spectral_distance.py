"""The spectral distance between a sound and a time-aligned recording.

The loss of the embedded voice's vocoder and of a person's decoder: multi-resolution STFT
(https://arxiv.org/abs/1910.11480) and log-mel.
"""

from functools import cache

import torch
from torch import Tensor
from torch.nn import functional as F

from xtts.audio import MEL_BANDS, VOCODER_RATE

RESOLUTIONS = (256, 512, 1024, 2048)
MEL_RESOLUTION, MEL_WEIGHT = 1024, 2.0
SILENCE = 1e-2


def spectral_distance(sound: Tensor, wanted: Tensor) -> Tensor:
    """The distance of two waveforms `[batch, samples]` at 24,000 Hz, a differentiable scalar.

    The mean over resolutions of the L1 of log magnitudes and the spectral convergence, plus the L1
    of log-mels."""
    losses = []
    for size in RESOLUTIONS:
        one, other = _magnitudes(sound, size), _magnitudes(wanted, size)
        # Sound 70 dB below loud speech is inaudible; modelling it would cost accuracy elsewhere.
        least = SILENCE * (size / 1024) ** 0.5
        log = (one.clamp(min=least).log() - other.clamp(min=least).log()).abs().mean()
        losses.append(log + (one - other).norm() / other.norm().clamp(min=least))
        if size == MEL_RESOLUTION:
            bands = _mel_bands().to(one)
            mel = [(bands @ part).clamp(min=least).log() for part in (one, other)]
            melodic = F.l1_loss(mel[0], mel[1])
    return torch.stack(losses).mean() + MEL_WEIGHT * melodic


def _magnitudes(wave: Tensor, size: int) -> Tensor:
    window = torch.hann_window(size, device=wave.device)
    magnitudes: Tensor = torch.stft(wave, size, size // 4, size, window, return_complex=True).abs()
    return magnitudes


@cache
def _mel_bands() -> Tensor:
    """Mel filters [80, bins] up to 8 kHz, the bandwidth of the teacher's sound; each sums to about
    one bin."""
    from torchaudio.functional import melscale_fbanks

    bins = MEL_RESOLUTION // 2 + 1
    bands: Tensor = melscale_fbanks(bins, 0.0, 8000.0, MEL_BANDS, VOCODER_RATE).T
    return bands / bands.sum(1, keepdim=True).clamp(min=1e-3)
