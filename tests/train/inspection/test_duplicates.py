"""Copies of one sound are found; other sounds, and other recordings, are not."""

import numpy as np

from tests.datasets import a_sound
from train.inspection.duplicates import find_copies, fingerprint

RATE = 22_050


def test_copies_are_found_at_another_level_shift_and_rate():
    sounds = [a_sound(2, RATE, seed=seed, pitch=90 + 17 * seed) for seed in range(6)]
    shifted = np.concatenate((np.zeros(4_321, np.float32), 0.3 * sounds[2]))
    noise = np.random.default_rng(3).standard_normal(len(sounds[4])).astype(np.float32)
    prints = [fingerprint(one, RATE) for one in (*sounds, shifted, sounds[4] + 0.003 * noise)]
    assert [(one, other) for one, other, _ in find_copies(prints)] == [(2, 6), (4, 7)]


def test_nothing_is_no_copy_of_nothing():
    assert find_copies([]) == []
    short = fingerprint(np.zeros(10, np.float32), RATE)
    assert find_copies([short, short]) == []
