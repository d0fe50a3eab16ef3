"""A chapter has ACX's loudness whatever the voice's level, and its limiter does not click."""

import numpy as np
import pytest

from extras.books.writing.loudness import PEAK_DB, as_pcm, gain_of, limit


def speech(level: float, seconds: float = 2.0) -> np.ndarray:
    """Noise with the envelope of syllables, and a loud peak."""
    random = np.random.default_rng(0)
    count = int(24_000 * seconds)
    envelope = np.abs(np.sin(np.arange(count) / 3000)) * np.hanning(count)
    sound = random.standard_normal(count) * envelope * level
    sound[count // 2] = 0.9
    return (np.clip(sound, -1, 1) * 32767).astype(np.int16)


@pytest.mark.parametrize("level", [0.02, 0.05, 0.3])
def test_rms_and_peak_are_within_acx(level):
    sounds = [speech(level), speech(level / 3)]
    gain = gain_of(lambda: iter(sounds), 24_000)
    loud = np.concatenate([*(limit(sound, gain) for sound in sounds), np.zeros(24_000)])
    rms = 10 * np.log10(np.mean(loud.astype(np.float64) ** 2))
    assert -23 <= rms <= -18
    assert 20 * np.log10(np.abs(loud).max()) <= PEAK_DB + 0.01


def test_the_loudness_is_that_of_the_whole_chapter_with_its_pauses():
    """As ACX measures it. Without the third that is silent it would be 1.8 dB less."""
    sound, silent = speech(0.05), 24_000
    gain = gain_of(lambda: iter([sound]), silent)
    loud = np.concatenate([limit(sound, gain), np.zeros(silent)])
    assert 10 * np.log10(np.mean(loud.astype(np.float64) ** 2)) == pytest.approx(-20, abs=0.3)


def test_the_limiter_turns_down_gently():
    count = 24_000
    sound = np.sin(np.arange(count) / 20) * 0.1
    sound[12_000:12_050] *= 9
    loud = limit((sound * 32767).astype(np.int16), 1.0)
    gain = loud[np.abs(sound) > 0.02] / sound[np.abs(sound) > 0.02]
    assert np.abs(np.diff(gain)).max() < 0.05
    assert np.abs(loud).max() <= 10 ** (PEAK_DB / 20) + 1e-6


def test_silence_stays_silent():
    silent = np.zeros(1000, np.int16)
    assert gain_of(lambda: iter([silent]), 10) == 1.0
    assert as_pcm(limit(silent, 5.0)).max() == 0
    assert len(limit(silent[:0], 2.0)) == 0
