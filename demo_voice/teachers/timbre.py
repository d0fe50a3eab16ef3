"""Random timbres: each clip as if spoken through another vocal tract and microphone.

A model memorises a handful of voices. A smooth random filter, applied to the conditioning and to
the target but not to the codes, teaches it to take the voice from the reference.
"""

import math
import random
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from xtts.audio import CODE_RATE, MEL_BANDS

# Standard deviations, in nats of magnitude, of the ripples over the mel axis; the slowest (a tilt)
# first. Two such curves differ about as much as the mean spectra of two of the teacher's voices.
RIPPLES = (0.55, 0.5, 0.4, 0.35, 0.3, 0.25, 0.2, 0.2)
# Every second row keeps its own timbre, so that the original voices are learned too.
SHARE = 0.5
_HIGHEST_HZ = 8000.0
# Log-mel values at or below this are digital silence, which no filter raises.
_SILENCE = math.log(1e-5)
# Half of the power of speech is below this frequency in Hz; above, it falls by 6 dB an octave.
_SPEECH_HZ = 500.0


@dataclass(frozen=True)
class Timbre:
    """A filter's gain: cosines over the mel axis up to 8 kHz, in nats of magnitude."""

    ripples: tuple[float, ...] = ()

    @staticmethod
    def drawn(draw: random.Random) -> "Timbre":
        """A random filter, which is flat half of the time."""
        if draw.random() >= SHARE:
            return Timbre()
        return Timbre(tuple(draw.gauss(0.0, spread) for spread in RIPPLES))

    def gains(self, hertz: Tensor) -> Tensor:
        """The gains in nats of magnitude at these frequencies; above 8 kHz, the gain at 8 kHz. The
        loudness of speech stays about the same."""
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
        """The filtered wave, [samples]."""
        if not self.ripples:
            return wave
        size = 1 << (len(wave) + rate // 20).bit_length()
        gains = self.gains(torch.linspace(0, rate / 2, size // 2 + 1)).exp()
        filtered: Tensor = torch.fft.irfft(torch.fft.rfft(wave, size) * gains, size)[: len(wave)]
        return filtered.clamp(-1.0, 1.0)

    def mels(self, frames: Tensor, mel_stats: Tensor) -> Tensor:
        """The DVAE's mel frames [n, 4 * 80] as if filtered; an approximation, which is close
        because the filter is smooth."""
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
    """The centre frequencies of the 80 bands of the DVAE's mel, in Hz."""
    from torchaudio.functional import melscale_fbanks

    bins = 513
    bands = melscale_fbanks(bins, 0.0, _HIGHEST_HZ, MEL_BANDS, CODE_RATE, "slaney", "htk")
    hertz = torch.linspace(0, CODE_RATE / 2, bins)
    centres: Tensor = (bands * hertz[:, None]).sum(0) / bands.sum(0).clamp(min=1e-9)
    return centres
