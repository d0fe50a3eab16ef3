"""Renders a spectrogram for TensorBoard without a plotting library."""

import torch
from torch import Tensor

FFT_SIZE = 1024
HOP = 256
RANGE_DB = 80.0
# Dark to bright: (level, red, green, blue), each from 0 to 1, straight lines between.
_COLOURS = (
    (0.0, 0.0, 0.0, 0.1),
    (0.3, 0.3, 0.05, 0.45),
    (0.6, 0.8, 0.25, 0.3),
    (0.85, 1.0, 0.65, 0.1),
    (1.0, 1.0, 1.0, 0.8),
)


def spectrogram(waveform: Tensor) -> Tensor:
    """`[samples]` -> `[3, 513, frames]` from 0 to 1, low frequencies at the bottom."""
    padded = torch.nn.functional.pad(waveform, (0, max(0, FFT_SIZE - len(waveform))))
    window = torch.hann_window(FFT_SIZE)
    power = torch.stft(padded, FFT_SIZE, HOP, window=window, return_complex=True).abs().square()
    level_db = 10 * torch.log10(power.clamp(min=1e-10))
    level = ((level_db - level_db.max()) / RANGE_DB + 1).clamp(0, 1).flip(0)
    return _coloured(level)


def _coloured(level: Tensor) -> Tensor:
    stops = torch.tensor(_COLOURS)
    upper = torch.searchsorted(stops[:, 0].contiguous(), level.contiguous()).clamp(
        1, len(stops) - 1
    )
    low, high = stops[upper - 1], stops[upper]
    share = ((level - low[..., 0]) / (high[..., 0] - low[..., 0]))[..., None]
    return (low[..., 1:] + share * (high[..., 1:] - low[..., 1:])).permute(2, 0, 1)
