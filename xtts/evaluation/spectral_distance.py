"""The distance of a sound from a time-aligned recording by log mels at several resolutions.

The loss of the embedded voice's vocoder and of a person's, and the distance of held-out clips. Log
mels rather than all bins (multi-resolution STFT, https://arxiv.org/abs/1910.11480): a band holds
several bins, so the arbitrary phase of noise costs less and formants count more; this is the scale
for which HiFi-GAN's weights against adversarial loss and feature matching are known; and it is the
loss that was measured together with them (docs/develop/evaluation.md, "The learned decoder").
"""

from functools import cache

import torch
from torch import Tensor
from torch.nn import functional as F

from xtts.audio import VOCODER_RATE
from xtts.model.discriminators import magnitudes

# FFT sizes and mel bands, up to 12 kHz.
RESOLUTIONS = ((2048, 160), (1024, 80), (512, 40), (256, 20))


def spectral_distance(sound: Tensor, recording: Tensor) -> Tensor:
    """The mean L1 of log mels of two waveforms `[batch, samples]` at 24,000 Hz, over all
    resolutions: a differentiable scalar."""
    distances = []
    for size, bands in RESOLUTIONS:
        filters = _filters(size, bands).to(sound.device)
        of_sound, of_recording = (
            (filters @ magnitudes(wave, size)).clamp(min=1e-3).log() for wave in (sound, recording)
        )
        distances.append(F.l1_loss(of_sound, of_recording))
    return torch.stack(distances).mean()


@cache
def _filters(size: int, bands: int) -> Tensor:
    """Mel filters `[bands, bins]` on the CPU."""
    from torchaudio.functional import melscale_fbanks

    filters: Tensor = melscale_fbanks(size // 2 + 1, 0.0, VOCODER_RATE / 2, bands, VOCODER_RATE, "slaney")
    return filters.T.contiguous() * size / 4
