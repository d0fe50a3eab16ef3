"""Words begin and end with their sound."""

import numpy as np
import pytest

from xtts.inference.alignment.guarded_piece import LoudnessLog, without_silence

RATE = 24_000
# START, a word of two tokens, a blank, a word of one token, STOP.
SPOKEN = np.array([0, 1, 1, 0, 1, 0], bool)
TIMES = np.array([[0, 0], [0, 0.3], [0.3, 0.5], [0.5, 0.5], [0.5, 1.0], [1.0, 1.0]])


def sound(*parts: tuple[float, float]) -> np.ndarray:
    """(seconds, amplitude) one behind the other."""
    noise = np.random.default_rng(0).standard_normal
    return np.concatenate([gain * noise(round(seconds * RATE)) for seconds, gain in parts])


def loud(wave: np.ndarray, chunk: int = 10**9) -> np.ndarray:
    log = LoudnessLog()
    for start in range(0, len(wave), chunk):
        log.push(wave[start : start + chunk].astype(np.float32))
    return log.loud()


def test_silence_at_either_end_of_a_word_is_not_of_it():
    wave = sound((0.2, 1e-4), (0.3, 0.3), (0.15, 0), (0.25, 0.1), (0.3, 1e-4))
    found = without_silence(TIMES, SPOKEN, loud(wave))
    assert found[[1, 2, 4]] == pytest.approx(
        np.array([[0.2, 0.3], [0.3, 0.5], [0.65, 0.9]]), abs=0.011
    )
    assert (np.diff(found[SPOKEN].ravel()) >= 0).all()


def test_a_closure_is_no_silence_and_a_word_of_silence_keeps_its_times():
    wave = sound((0.04, 0), (0.42, 0.3), (0.04, 0), (0.5, 1e-5))
    assert np.array_equal(without_silence(TIMES, SPOKEN, loud(wave)), TIMES)
    assert np.array_equal(without_silence(TIMES, SPOKEN, np.zeros(0, bool)), TIMES)


def test_the_vocoders_clicks_are_no_sound():
    wave = sound(
        (0.03, 0.2), (0.17, 1e-4), (0.3, 0.3), (0.15, 0), (0.25, 0.1), (0.27, 0), (0.03, 0.2)
    )
    found = without_silence(TIMES, SPOKEN, loud(wave))
    assert found[1, 0] == pytest.approx(0.2, abs=0.011)
    assert found[4, 1] == pytest.approx(0.9, abs=0.011)


@pytest.mark.parametrize("chunk", [7, 239, 1_000, 24_000])
def test_chunks_make_no_difference(chunk):
    wave = sound((0.2, 1e-4), (0.3, 0.3), (0.25, 0), (0.25, 0.1))
    assert np.array_equal(loud(wave, chunk), loud(wave))


def test_at_another_speed_the_sound_lies_elsewhere():
    wave = sound((0.1, 0), (0.15, 0.3), (0.1, 0), (0.15, 0.1))
    found = without_silence(TIMES, SPOKEN, loud(wave), speed=2.0)
    assert found[1, 0] == pytest.approx(0.2, abs=0.021)
    assert found[4, 0] == pytest.approx(0.7, abs=0.021)
