"""Random timbres: each clip as if spoken through another vocal tract and microphone.

From a handful of voices a model learns each by heart. A smooth random filter, the same on the
conditioning and on the target while the codes stay, teaches it to take the voice from the
reference.
"""

import math
import random
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from xtts.audio import CODE_RATE, MEL_BANDS

# Spreads in nats of magnitude of the ripples over the mel axis, the slowest (a tilt) first. The
# mean spectra of two of the teacher's voices lie about as far apart as two such curves.
RIPPLES = (0.55, 0.5, 0.4, 0.35, 0.3, 0.25, 0.2, 0.2)
# Every second row keeps its own timbre: the voices as they are have to stay.
SHARE = 0.5
_HIGHEST_HZ = 8000.0
# What is as low as this in a log-mel is digital silence: no filter raises it.
_SILENCE = math.log(1e-5)
# Speech has half its power below, and falls by 6 dB an octave above.
_SPEECH_HZ = 500.0


@dataclass(frozen=True)
class Timbre:
    """A filter's gain: cosines over the mel axis up to 8 kHz, in nats of magnitude."""

    ripples: tuple[float, ...] = ()

    @staticmethod
    def drawn(draw: random.Random) -> "Timbre":
        """Flat as often as not."""
        if draw.random() >= SHARE:
            return Timbre()
        return Timbre(tuple(draw.gauss(0.0, spread) for spread in RIPPLES))

    def gains(self, hertz: Tensor) -> Tensor:
        """Gains in nats of magnitude at these frequencies, above 8 kHz that of 8 kHz; speech stays
        about as loud."""
        everywhere = torch.linspace(0, _HIGHEST_HZ, 400)
        power = 1 / (1 + (everywhere / _SPEECH_HZ) ** 2)
        louder = (power * (2 * self._curve(everywhere)).exp()).sum() / power.sum()
        return self._curve(hertz.clamp(max=_HIGHEST_HZ)) - 0.5 * louder.log()

    def _curve(self, hertz: Tensor) -> Tensor:
        place = _mel(hertz) / _mel(torch.tensor(_HIGHEST_HZ))
        ripples = torch.tensor(self.ripples)
        numbers = torch.arange(1, len(ripples) + 1)
        return torch.cos(math.pi * numbers * place[:, None]) @ ripples

    def heard(self, wave: Tensor, rate: int) -> Tensor:
        """[samples] behind the filter."""
        if not self.ripples:
            return wave
        size = 1 << (len(wave) + rate // 20).bit_length()
        gains = self.gains(torch.linspace(0, rate / 2, size // 2 + 1)).exp()
        filtered: Tensor = torch.fft.irfft(torch.fft.rfft(wave, size) * gains, size)[: len(wave)]
        return filtered.clamp(-1.0, 1.0)

    def mels(self, frames: Tensor, mel_stats: Tensor) -> Tensor:
        """The DVAE's mel frames [n, 4 * 80] as they would be behind the filter: near enough to
        learn from, as the filter is smooth."""
        if not self.ripples:
            return frames
        moved = 2 * self.gains(_centres())
        bands = frames.view(len(frames), -1, MEL_BANDS)
        silence = _SILENCE / mel_stats
        sounds = bands > silence + 1e-2
        return (bands + sounds * (moved / mel_stats)).clamp(min=silence).view_as(frames)


def _mel(hertz: Tensor) -> Tensor:
    return torch.log1p(hertz / 700.0)


@cache
def _centres() -> Tensor:
    """Where the 80 bands of the DVAE's mel lie, in Hz."""
    from torchaudio.functional import melscale_fbanks

    bins = 513
    bands = melscale_fbanks(bins, 0.0, _HIGHEST_HZ, MEL_BANDS, CODE_RATE, "slaney", "htk")
    hertz = torch.linspace(0, CODE_RATE / 2, bins)
    centres: Tensor = (bands * hertz[:, None]).sum(0) / bands.sum(0).clamp(min=1e-9)
    return centres
