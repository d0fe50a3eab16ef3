"""Measurements of clips, on sounds with known values; copies of a sound are found."""

import itertools

import numpy as np
import pytest

from extras.inspect.sound import SoundFacts, find_copies, fingerprint, measure
from tests.datasets import a_sound

RATE = 22_050


def words(seed: int = 0) -> np.ndarray:
    """Four voiced bursts with pauses between them and silence around them."""
    pause = np.zeros(RATE // 5, np.float32)
    parts = [part for n in range(4) for part in (pause, a_sound(0.3, RATE, seed=seed + n))]
    return np.concatenate([*parts, pause])


def facts(samples: np.ndarray, rate: int = RATE) -> SoundFacts:
    return measure(samples.astype(np.float32), rate)


def test_silence_around_is_measured():
    found = facts(np.pad(words(), (RATE, 2 * RATE)))
    assert found.lead_seconds == pytest.approx(1.2, abs=0.04)
    assert found.tail_seconds == pytest.approx(2.2, abs=0.04)
    assert found.spoken_seconds == pytest.approx(1.8, abs=0.06)
    for little in (words()[:50], np.zeros(RATE)):  # very short, and silent
        assert np.isfinite(list(vars(facts(little)).values())).all()


def test_noise_below_the_voice_is_measured():
    noise = np.random.default_rng(0).standard_normal(len(words()))
    clean, noisy = facts(words() + 1e-4 * noise), facts(words() + 1e-2 * noise)
    assert clean.noise_db - noisy.noise_db == pytest.approx(40, abs=3)


def test_clipping_offset_and_level():
    assert facts(words()).clipped < 1e-3
    loud = facts(np.clip(8 * words(), -0.9, 0.9))
    assert loud.clipped > 0.01
    assert facts(words() + 0.05).offset - facts(words()).offset == pytest.approx(0.05, abs=1e-4)
    assert facts(words()).level_db - facts(words() / 10).level_db == pytest.approx(20, abs=0.1)


def test_the_highest_frequency_is_heard():
    time = np.arange(RATE) / RATE
    for hertz in (3_000, 9_000):
        assert facts(np.sin(2 * np.pi * hertz * time)).heard_hz == pytest.approx(hertz, rel=0.05)


def test_a_tone_and_noise_are_told_from_each_other():
    time = np.arange(2 * RATE) / RATE
    tone = facts(0.3 * np.sin(2 * np.pi * 440 * time))
    noise = facts(0.1 * np.random.default_rng(0).standard_normal(2 * RATE))
    assert tone.dynamics_db < 1 and tone.tone > 0.99 and tone.flatness < 0.01
    assert noise.dynamics_db < 3 and noise.tone < 0.1 and noise.flatness > 0.4
    assert facts(words()).dynamics_db > 10


def test_an_edge_in_the_middle_of_sound():
    whole = words()
    cut = facts(whole[: int(0.35 * RATE)])
    assert cut.end_db > -10 and cut.start_db < -60
    assert facts(whole[int(0.35 * RATE) :]).start_db > -10
    # As LJSpeech cuts its clips: the sound rises from silence within 20 ms.
    faded = whole[int(0.35 * RATE) :].copy()
    faded[: RATE // 50] *= np.geomspace(0.001, 1, RATE // 50)
    assert facts(faded).start_db < -18


def test_copies_are_found_at_another_level_shift_and_rate():
    sounds = [a_sound(2, RATE, seed=seed, pitch=90 + 17 * seed) for seed in range(6)]
    shifted = np.concatenate((np.zeros(4_321, np.float32), 0.3 * sounds[2]))
    noise = np.random.default_rng(3).standard_normal(len(sounds[4])).astype(np.float32)
    prints = [fingerprint(sound, RATE) for sound in (*sounds, shifted, sounds[4] + 0.003 * noise)]
    assert [(first, other) for first, other, _ in find_copies(prints)] == [(2, 6), (4, 7)]
    # Empty sounds are not copies of each other.
    short = fingerprint(np.zeros(10, np.float32), RATE)
    assert find_copies([]) == find_copies([short, short]) == []


def test_a_recording_that_is_there_five_times_is_a_copy_each_time():
    prints = [fingerprint(a_sound(1, RATE), RATE)] * 5
    found = [(first, other) for first, other, _ in find_copies(prints)]
    assert found == list(itertools.combinations(range(5), 2))
