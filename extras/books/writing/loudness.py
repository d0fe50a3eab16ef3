"""Adjusts a chapter to ACX's loudness: RMS -23 to -18 dB, peaks at most -3 dB.

One gain applies to a whole chapter, which preserves the relative loudness of its sentences; a
limiter reduces the peaks. Sentences are limited separately, which does not click because their ends
are silent. Source: https://help.acx.com, "audio submission requirements".
"""

from collections.abc import Callable, Iterator

import numpy as np

TARGET_RMS_DB = -20.0
# A lossy encoder may exceed the peak by half a decibel.
PEAK_DB = -4.0
MAX_GAIN_DB = 30.0
_FULL_SCALE = 32768.0
# The attack and release time of the limiter, in samples at 24,000 Hz: 5 ms.
_LIMITER_SAMPLES = 120
_NUM_PASSES = 3


def gain_of(sounds: Callable[[], Iterator[np.ndarray]], silent_samples: int) -> float:
    """The gain with which a chapter has its loudness after the limiter.

    Args:
        sounds: Returns a new iterator over the sounds `[samples]` of the chapter, int16.
        silent_samples: The number of samples in pauses.
    """
    gain = 1.0
    for _ in range(_NUM_PASSES):
        power, count = 0.0, silent_samples
        for sound in sounds():
            loud = limit(sound, gain).astype(np.float64)
            power += float(loud @ loud)
            count += len(sound)
        if power == 0.0:
            return 1.0
        factor = 10 ** (TARGET_RMS_DB / 20) / np.sqrt(power / max(count, 1))
        gain = min(gain * float(factor), 10 ** (MAX_GAIN_DB / 20))
    return gain


def limit(sound: np.ndarray, gain: float) -> np.ndarray:
    """Applies a gain to a sound `[samples]` of int16; float32 in -1..1, limited to PEAK_DB."""
    loud = np.asarray(sound, np.float32) * np.float32(gain / _FULL_SCALE)
    ceiling = np.float32(10 ** (PEAK_DB / 20))
    peaks = np.abs(loud)
    if not len(loud) or float(peaks.max()) <= ceiling:
        return loud
    gains = np.minimum(1.0, ceiling / np.maximum(peaks, 1e-9))
    # The minimum of the gains nearby, then the mean of these, which never exceeds a sample's gain.
    padded = np.pad(gains, 2 * _LIMITER_SAMPLES, mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * _LIMITER_SAMPLES + 1)
    minima = windows.min(axis=1)
    sums = np.cumsum(np.concatenate(([0.0], minima)))
    smooth = (sums[2 * _LIMITER_SAMPLES + 1 :] - sums[: -2 * _LIMITER_SAMPLES - 1]) / (
        2 * _LIMITER_SAMPLES + 1
    )
    return np.clip(loud * smooth.astype(np.float32), -ceiling, ceiling)


def as_pcm(loud: np.ndarray) -> np.ndarray:
    """Samples in -1..1 as int16."""
    return np.round(loud * 32767.0).astype(np.int16)
