"""Brings a recording to another sample rate, without torch."""

import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_RING_SECONDS = 0.1


def resampled(samples: Array, rate: int, to: int) -> Array:
    """`[n]` at another rate, by the FFT of the whole: what both rates hold stays as it is."""
    if rate == to:
        return samples
    step = rate // math.gcd(rate, to)
    # Silence behind it, since what the FFT sees is a circle.
    padding = int(_RING_SECONDS * rate)
    whole = -(-(len(samples) + padding) // step) * step
    count = whole * to // rate
    spectrum = np.fft.rfft(np.pad(samples, (0, whole - len(samples))))
    other = np.fft.irfft(spectrum, count) * (count / whole)
    found: Array = other[: len(samples) * to // rate].astype(np.float32)
    return found
