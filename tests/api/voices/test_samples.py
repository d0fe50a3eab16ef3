"""The measurements of a recording, on real speech and on altered copies of it."""

import numpy as np
import pytest
import soundfile

from api.voices.samples import measure, resampled
from xtts.voices.base_models import DEMO


@pytest.fixture(scope="module")
def recording() -> tuple[np.ndarray, int]:
    return soundfile.read(DEMO / "reference.wav", dtype="float32")


def test_a_clean_recording_is_good(recording):
    quality = measure(*recording)
    assert (quality["word"], quality["remarks"], quality["clipped_share"]) == ("good", [], 0.0)
    assert quality["snr_db"] > 40 and 5 < quality["speech_seconds"] < 8


@pytest.mark.parametrize(("noise", "word"), [(0.003, "good"), (0.01, "usable"), (0.05, "poor")])
def test_noise_is_told_in_db(recording, noise, word):
    sound, rate = recording
    drawn = np.random.default_rng(0).normal(0, noise, len(sound)).astype("float32")
    quality = measure(sound + drawn, rate)
    expected = quality["level_db"] - 20 * np.log10(noise)
    assert quality["word"] == word
    assert quality["snr_db"] == pytest.approx(expected, abs=2.0)
    assert bool(quality["remarks"]) == (word != "good")


def test_clipping_shortness_and_quiet_are_told(recording):
    sound, rate = recording
    clipped = measure(np.clip(8 * sound, -1, 1), rate)
    assert clipped["word"] == "poor" and clipped["clipped_share"] > 0.05
    short = measure(sound[: 2 * rate], rate)
    assert short["word"] == "usable" and "6 to 30 s" in short["remarks"][0]
    quiet = measure(sound / 30, rate)
    assert quiet["word"] == "usable" and "quiet" in quiet["remarks"][0]
    # One peak at full scale is not clipping.
    peak = sound.copy()
    peak[100] = 1.0
    assert measure(peak, rate)["clipped_share"] == 0.0


@pytest.mark.parametrize("rate", [8_000, 16_000, 22_050, 44_100, 48_000, 96_000, 176_400, 192_000])
def test_speech_is_speech_and_a_tone_a_tone_at_every_rate(recording, rate):
    """A window of a fixed length in samples is shorter at 192 kHz; its bins hold all of a voice."""
    sound, own_rate = recording
    # A low voice: most of its energy is below 500 Hz.
    spectrum = np.fft.rfft(sound)
    spectrum *= 1 / (1 + (np.arange(len(spectrum)) * own_rate / len(sound) / 300) ** 2)
    low = np.fft.irfft(spectrum, len(sound)).astype("float32")
    quality = measure(resampled(3 * low, own_rate, rate), rate)
    assert quality["word"] == "good" and 5 < quality["speech_seconds"] < 8
    alike = resampled(low, own_rate, rate)
    loudest = measure(alike / np.abs(alike).max(), rate)
    assert loudest["clipped_share"] < 1e-4
    assert measure(np.clip(20 * alike, -1, 1), rate)["clipped_share"] > 0.01
    time_axis = np.arange(6 * rate) / rate
    beep = 0.3 * np.sin(2 * np.pi * 440 * time_axis) * (1 + np.sin(2 * np.pi * time_axis))
    with pytest.raises(ValueError, match="a steady tone"):
        measure(beep, rate)
