"""How much a vowel sounds like each vowel, by the Gaussians of pocketsphinx's English model.

The model has heard many people, so it hears little of the timbre. Its files are read with numpy,
because the package gives no scores of single phones.
"""

import re
import struct
from pathlib import Path

import numpy as np

VOWELS = tuple("AA AE AH AO AW AY EH ER EY IH IY OW OY UH UW".split())
_SOUNDS = (*VOWELS, "R", "L", "W", "Y")
RATE = 16_000
# In samples.
HOP, WINDOW, _FFT_SIZE = 160, 410, 512
_NUM_BANDS, _NUM_CEPSTRA = 25, 13
_LOWEST_HZ, _HIGHEST_HZ = 130.0, 6800.0
_NUM_STREAMS, _NUM_GAUSSIANS, _NUM_STATES = 3, 128, 5126
# Mixture weights are logarithms to this base, divided by 1024.
_LOG_BASE, _WEIGHT_SHIFT = 1.0001, 1024
# Flattens the probabilities: neighbouring frames repeat each other's evidence.
_TEMPERATURE = 8.0


class VowelModel:
    """The Gaussians of the middle state of each sound, with their mixture weights."""

    def __init__(self, folder: Path) -> None:
        names = _phone_names((folder / "mdef").read_bytes())
        phones = [names.index(sound) for sound in _SOUNDS]
        size = _NUM_STREAMS * _NUM_GAUSSIANS * _NUM_STATES
        quantized = np.frombuffer((folder / "sendump").read_bytes()[-size:], np.uint8)
        weights = quantized.reshape(_NUM_STREAMS, _NUM_GAUSSIANS, _NUM_STATES)
        self._streams = list[tuple[np.ndarray, np.ndarray, np.ndarray]]()
        for means, variances, weight in zip(
            _read_gaussians(folder / "means"), _read_gaussians(folder / "variances"), weights, strict=True
        ):
            mean, variance = means[phones], np.maximum(variances[phones], 1e-4)
            # A phone has three states.
            middle_state = weight[:, [3 * phone + 1 for phone in phones]].T.astype(np.float32)
            constant = -0.5 * (mean**2 / variance + np.log(variance)).sum(2)
            constant -= middle_state * _WEIGHT_SHIFT * np.log(_LOG_BASE)
            self._streams.append((mean / variance, 0.5 / variance, constant))

    def likeness(self, samples: np.ndarray, spoken: np.ndarray, moments: np.ndarray) -> np.ndarray:
        """The square roots of the sounds' probabilities, `[vowels, sounds]`.

        Args:
            samples: The recording at 16 kHz.
            spoken: The frames of its speech; their mean is subtracted.
            moments: The frames of each vowel, `[vowels, moments]`.
        """
        cepstra = _cepstra(samples)
        last = len(cepstra) - 1
        cepstra = (cepstra - cepstra[spoken[spoken <= last]].mean(0)) * _LIFTER
        scores = self._scores(cepstra, np.minimum(moments.ravel(), last))
        mean = scores.reshape(*moments.shape, -1).mean(1) / _TEMPERATURE
        odds = np.exp(mean - mean.max(1, keepdims=True))
        roots: np.ndarray = np.sqrt(odds / odds.sum(1, keepdims=True))
        return roots

    def _scores(self, cepstra: np.ndarray, frames: np.ndarray) -> np.ndarray:
        total = np.zeros((len(frames), len(_SOUNDS)))
        for values, (linear, square, constant) in zip(
            _with_derivatives(cepstra, frames), self._streams, strict=True
        ):
            flat = (-1, linear.shape[2])
            logs = values @ linear.reshape(flat).T - values**2 @ square.reshape(flat).T
            logs = logs.reshape(len(frames), *constant.shape) + constant
            largest = logs.max(2)
            total += largest + np.log(np.exp(logs - largest[..., None]).sum(2))
        return total


def _with_derivatives(cepstra: np.ndarray, frames: np.ndarray) -> tuple[np.ndarray, ...]:
    """The cepstra of these frames, and their first and second derivatives: the model's streams."""

    def at(offset: int) -> np.ndarray:
        return cepstra[np.clip(frames + offset, 0, len(cepstra) - 1)]

    return at(0), at(2) - at(-2), (at(3) - at(-1)) - (at(1) - at(-3))


def _cepstra(samples: np.ndarray) -> np.ndarray:
    scaled = samples.astype(np.float64) * 32768
    emphasized = np.append(scaled[0], scaled[1:] - 0.97 * scaled[:-1])
    frames = np.lib.stride_tricks.sliding_window_view(emphasized, WINDOW)[::HOP] * np.hamming(WINDOW)
    power = np.abs(np.fft.rfft(frames, _FFT_SIZE)) ** 2 @ _FILTERS.T
    cepstra: np.ndarray = np.log(np.maximum(power, 1e-2)) @ _COSINES.T
    return cepstra


def _mel_filters() -> np.ndarray:
    ends = 2595 * np.log10(1 + np.array([_LOWEST_HZ, _HIGHEST_HZ]) / 700)
    edges = 700 * (10 ** (np.linspace(ends[0], ends[1], _NUM_BANDS + 2) / 2595) - 1)
    bins = np.arange(_FFT_SIZE // 2 + 1) * RATE / _FFT_SIZE
    low, centre, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    return np.maximum(0, np.minimum((bins - low) / (centre - low), (high - bins) / (high - centre)))


def _cosines() -> np.ndarray:
    angles = np.pi * np.arange(_NUM_CEPSTRA)[:, None] * (np.arange(_NUM_BANDS) + 0.5) / _NUM_BANDS
    cosines: np.ndarray = np.cos(angles) * np.sqrt(2 / _NUM_BANDS)
    cosines[0] /= np.sqrt(2)
    return cosines


_FILTERS, _COSINES = _mel_filters(), _cosines()
_LIFTER = 1 + 11 * np.sin(np.pi * np.arange(_NUM_CEPSTRA) / 22)


def _phone_names(definition: bytes) -> list[str]:
    names = re.search(rb"((?:\+[A-Z]+\+\0)+(?:[A-Z]+\0){38,})", definition)
    if names is None:
        raise ValueError("mdef names no phones")
    return [name.decode() for name in names[1].split(b"\0") if name]


def _read_gaussians(path: Path) -> list[np.ndarray]:
    """Reads means or variances from a file of Sphinx 3: `[phones, Gaussians, values]` for each stream."""
    content = path.read_bytes()
    offset = content.index(b"endhdr\n") + len(b"endhdr\n") + 4
    phones, streams, gaussians = struct.unpack_from("<3i", content, offset)
    offset += 12
    widths = struct.unpack_from(f"<{streams}i", content, offset)
    offset += 4 * streams + 4
    values = np.frombuffer(content, "<f4", phones * gaussians * sum(widths), offset).reshape(phones, -1)
    parts = np.split(values, np.cumsum([gaussians * width for width in widths])[:-1], axis=1)
    return [part.reshape(phones, gaussians, -1) for part in parts]
