"""How much a vowel sounds like each vowel, by the Gaussians of pocketsphinx's English model.

The model has heard many people, so it hears little of the timbre. Its files are read with numpy,
because the package gives no scores of single phones.
"""

import re
import struct
from pathlib import Path

import numpy as np

VOWELS = tuple("AA AE AH AO AW AY EH ER EY IH IY OW OY UH UW".split())
RATE, STEP, WINDOW = 16_000, 160, 410
_SOUNDS = (*VOWELS, "R", "L", "W", "Y")
_BANDS, _CEPSTRA, _SPECTRUM = 25, 13, 512
_LOWEST_HZ, _HIGHEST_HZ = 130.0, 6800.0
_STREAMS, _GAUSSIANS, _STATES = 3, 128, 5126
_LOG_BASE, _WEIGHT_SHIFT = 1.0001, 1024
# Flattens the probabilities: neighbouring frames repeat each other's evidence.
_TEMPERATURE = 8.0


class VowelModel:
    """The Gaussians of the middle state of each sound, with their mixture weights."""

    def __init__(self, folder: Path) -> None:
        names = _phone_names((folder / "mdef").read_bytes())
        phones = [names.index(sound) for sound in _SOUNDS]
        size = _STREAMS * _GAUSSIANS * _STATES
        quantized = np.frombuffer((folder / "sendump").read_bytes()[-size:], np.uint8)
        weights = quantized.reshape(_STREAMS, _GAUSSIANS, _STATES)
        self._streams = list[tuple[np.ndarray, np.ndarray, np.ndarray]]()
        for means, variances, weight in zip(
            _arrays(folder / "means"), _arrays(folder / "variances"), weights, strict=True
        ):
            mean, spread = means[phones], np.maximum(variances[phones], 1e-4)
            middle = weight[:, [3 * phone + 1 for phone in phones]].T.astype(np.float32)
            constant = -0.5 * (mean**2 / spread + np.log(spread)).sum(2)
            constant -= middle * _WEIGHT_SHIFT * np.log(_LOG_BASE)
            self._streams.append((mean / spread, 0.5 / spread, constant))

    def likeness(self, samples: np.ndarray, spoken: np.ndarray, moments: np.ndarray) -> np.ndarray:
        """The square roots of the sounds' probabilities, `[vowels, sounds]`.

        Args:
            samples: The recording at 16 kHz.
            spoken: The frames of its speech, whose mean is the recording's own.
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
            _with_changes(cepstra, frames), self._streams, strict=True
        ):
            flat = (-1, linear.shape[2])
            logs = values @ linear.reshape(flat).T - values**2 @ square.reshape(flat).T
            logs = logs.reshape(len(frames), *constant.shape) + constant
            most = logs.max(2)
            total += most + np.log(np.exp(logs - most[..., None]).sum(2))
        return total


def _with_changes(cepstra: np.ndarray, frames: np.ndarray) -> tuple[np.ndarray, ...]:
    def at(offset: int) -> np.ndarray:
        return cepstra[np.clip(frames + offset, 0, len(cepstra) - 1)]

    return at(0), at(2) - at(-2), (at(3) - at(-1)) - (at(1) - at(-3))


def _cepstra(samples: np.ndarray) -> np.ndarray:
    raised = samples.astype(np.float64) * 32768
    raised = np.append(raised[0], raised[1:] - 0.97 * raised[:-1])
    frames = np.lib.stride_tricks.sliding_window_view(raised, WINDOW)[::STEP] * np.hamming(WINDOW)
    power = np.abs(np.fft.rfft(frames, _SPECTRUM)) ** 2 @ _FILTERS.T
    cepstra: np.ndarray = np.log(np.maximum(power, 1e-2)) @ _COSINES.T
    return cepstra


def _mel_filters() -> np.ndarray:
    ends = 2595 * np.log10(1 + np.array([_LOWEST_HZ, _HIGHEST_HZ]) / 700)
    edges = 700 * (10 ** (np.linspace(ends[0], ends[1], _BANDS + 2) / 2595) - 1)
    bins = np.arange(_SPECTRUM // 2 + 1) * RATE / _SPECTRUM
    low, centre, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    return np.maximum(0, np.minimum((bins - low) / (centre - low), (high - bins) / (high - centre)))


def _cosines() -> np.ndarray:
    angles = np.pi * np.arange(_CEPSTRA)[:, None] * (np.arange(_BANDS) + 0.5) / _BANDS
    cosines: np.ndarray = np.cos(angles) * np.sqrt(2 / _BANDS)
    cosines[0] /= np.sqrt(2)
    return cosines


_FILTERS, _COSINES = _mel_filters(), _cosines()
_LIFTER = 1 + 11 * np.sin(np.pi * np.arange(_CEPSTRA) / 22)


def _phone_names(definition: bytes) -> list[str]:
    found = re.search(rb"((?:\+[A-Z]+\+\0)+(?:[A-Z]+\0){38,})", definition)
    if found is None:
        raise ValueError("mdef names no phones")
    return [name.decode() for name in found[1].split(b"\0") if name]


def _arrays(path: Path) -> list[np.ndarray]:
    """The Gaussians of each stream, `[phones, Gaussians, values]`, of a file of Sphinx 3."""
    content = path.read_bytes()
    place = content.index(b"endhdr\n") + len(b"endhdr\n") + 4
    phones, streams, gaussians = struct.unpack_from("<3i", content, place)
    place += 12
    widths = struct.unpack_from(f"<{streams}i", content, place)
    place += 4 * streams + 4
    values = np.frombuffer(content, "<f4", phones * gaussians * sum(widths), place).reshape(phones, -1)
    parts = np.split(values, np.cumsum([gaussians * width for width in widths])[:-1], axis=1)
    return [part.reshape(phones, gaussians, -1) for part in parts]
