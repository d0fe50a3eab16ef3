"""PerTh, Resemble AI's watermark (MIT), with the weights in the wheel of `resemble-perth`.

A network changes the magnitudes of speech below 2 kHz, and another one hears whether they were
changed; there is no message in it. Written after perth/perth_net/perth_net_implicit of version
1.0.1. The package itself is never imported: it needs librosa and pkg_resources, and resamples to
32 kHz. Its bins are 15.625 Hz wide, as they are here at 24 kHz, so nothing is resampled.
"""

from functools import cache
from typing import TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from extras.watermark.weights import missing, weights_file
from machine.errors import SotaqueError

RATE, FFT_SIZE, HOP = 24_000, 1_536, 240
# The network knows magnitudes of an FFT of 2,048 samples at 32 kHz, with -180 to 15 dB as 0 to 1.
SCALE, FLOOR_DB, RANGE_DB = 2_048 / FFT_SIZE, -180.0, 195.0
NUM_BINS, WIDTH = 128, 256
# As a share of the loudest frame. Quieter frames are not changed or heard.
_MIN_FRAME_LEVEL = 0.05
# A shorter chunk cannot be padded to a window by its reflection.
MIN_SAMPLES = FFT_SIZE // 2 + 1
# A chunk's watermark fades in and out.
_FADE_SAMPLES = 120

Samples = TypeVar("Samples", Tensor, np.ndarray)


def load() -> None:
    """Loads the weights. Raises SotaqueError if they are not installed."""
    _network()


def mark(samples: Samples) -> Samples:
    """Speech `[samples]` at 24 kHz with the watermark, as float32. A chunk of less than 32 ms is
    returned unchanged."""
    if len(samples) < MIN_SAMPLES:
        return samples
    if isinstance(samples, np.ndarray):
        return _mark(torch.from_numpy(samples)).numpy()
    return _mark(samples)


def _mark(samples: Tensor) -> Tensor:
    network = _network()
    with torch.inference_mode():
        spectrum = _spectrum(samples.float())
        levels = _levels(spectrum)
        change = network.change(levels[:NUM_BINS]) * _has_sound(levels)
        spectrum[:NUM_BINS] *= 10 ** (change * RANGE_DB / 20)
        watermark = torch.istft(spectrum, FFT_SIZE, HOP, window=_window(), length=len(samples)) - samples
        # Chunks are marked alone; without a fade of 5 ms their joints would click.
        fade = torch.linspace(0, 1, _FADE_SAMPLES)
        watermark[:_FADE_SAMPLES] *= fade
        watermark[-_FADE_SAMPLES:] *= fade.flip(0)
        return samples + watermark


def confidence(samples: Tensor) -> float:
    """How sure the detector is that speech `[samples]` at 24 kHz has the watermark, 0 to 1."""
    network = _network()
    with torch.inference_mode():
        levels = _levels(_spectrum(samples.float()))
        return float(network(levels[None, :NUM_BINS], _has_sound(levels)[None, None]).clamp(0, 1))


class _Conv(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel: int, *, active: bool = True) -> None:
        super().__init__()
        self.conv = nn.Conv1d(in_channels, out_channels, kernel, padding=kernel // 2)
        self._active = active

    def forward(self, x: Tensor) -> Tensor:
        return F.leaky_relu(self.conv(x)) if self._active else self.conv(x)


def _layers(out_channels: int) -> nn.Sequential:
    middle = [_Conv(WIDTH, WIDTH, 7) for _ in range(5)]
    return nn.Sequential(_Conv(NUM_BINS, WIDTH, 1), *middle, _Conv(WIDTH, out_channels, 1, active=False))


class _Network(nn.Module):
    """The names of the layers are those of the weights."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.ModuleDict({"layers": _layers(NUM_BINS)})
        self.decoder = nn.ModuleDict({f"{name}_layers": _layers(2) for name in SPEEDS})

    def change(self, levels: Tensor) -> Tensor:
        """The watermark of levels `[bins, frames]`, to be added to them."""
        return self.encoder["layers"](levels[None])[0]

    def forward(self, levels: Tensor, has_sound: Tensor) -> Tensor:
        """Hears levels `[1, bins, frames]` at three speeds, so that it also finds a watermark in
        sound that plays faster or slower. Returns `[1]`."""
        votes = []
        for name, speed in SPEEDS.items():
            frames = int(levels.shape[2] * speed)
            resized = F.interpolate(levels, size=frames, mode="linear", align_corners=True)
            frame_mask = F.interpolate(has_sound, size=frames, mode="nearest")
            output = self.decoder[f"{name}_layers"](resized)
            votes.append((output * frame_mask).sum(2) / frame_mask.sum(2).clamp(min=1))
        weight, vote = torch.stack(votes, 1).unbind(2)
        return (vote * weight.softmax(1)).sum(1)


SPEEDS = {"slow": 1.25, "normal": 1.0, "fast": 0.75}


@cache
def _network() -> _Network:
    """The networks with their weights, loaded once in a process."""
    path = weights_file()
    if path is None:
        raise SotaqueError(missing() or "")
    weights = torch.load(path, map_location="cpu", weights_only=True)["model"]
    with torch.random.fork_rng(devices=[]):  # modules draw random weights first
        network = _Network()
    network.load_state_dict({name: tensor for name, tensor in weights.items() if name[:3] != "ap."})
    return network.eval().requires_grad_(False)


@cache
def _window() -> Tensor:
    return torch.hann_window(FFT_SIZE)


def _spectrum(samples: Tensor) -> Tensor:
    return torch.stft(samples, FFT_SIZE, HOP, window=_window(), return_complex=True)


def _levels(spectrum: Tensor) -> Tensor:
    """Magnitudes `[bins, frames]` as the networks know them."""
    decibels = 20 * torch.log10((spectrum.abs() * SCALE).clamp(min=1e-9))
    return (decibels - FLOOR_DB) / RANGE_DB


def _has_sound(levels: Tensor) -> Tensor:
    """1 for frames with sound, `[frames]`."""
    total = levels.sum(0)
    return (total > total.max() * _MIN_FRAME_LEVEL).float()
