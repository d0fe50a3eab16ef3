"""The main teacher's clips, made by a network of this test in place of hibari's."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from demo_voice.teachers import hibari
from demo_voice.teachers.hibari import RATE, SAMPLES_PER_FRAME, Person


@pytest.mark.parametrize("joint", [1.0, 0.8])
def test_each_phone_lasts_as_long_as_its_sound(monkeypatch, joint):
    """Three phones of 0.5, 0.25 and 1 second, the middle one silent and unvoiced."""
    durations = np.array([20.0, 10.0, 40.0], np.float32)  # in pairs of frames, like hibari's
    frames = 2 * int(durations.sum())
    loud = np.repeat([1.0, 0.0, 1.0], 2 * durations.astype(int))
    f0 = np.where(loud > 0, 200.0, 0.0).astype(np.float32)

    def synth(*_spectra: object) -> np.ndarray:
        time = np.arange(frames * SAMPLES_PER_FRAME) / RATE
        return (np.repeat(loud, SAMPLES_PER_FRAME) * np.sin(2 * np.pi * 200 * time)).astype(np.float32)

    package = SimpleNamespace(dsp=SimpleNamespace(synth=synth))
    monkeypatch.setitem(sys.modules, "hibari", package)
    bins = np.zeros((1, 601, frames), np.float32)
    voice = hibari.Voice.__new__(hibari.Voice)
    outputs = [bins, bins, bins, bins, bins, f0[None], durations[None]]
    voice.session = SimpleNamespace(run=lambda names, inputs: outputs)
    spoken = voice.speak(np.array([7, 8, 9]), Person("one", joint=joint), 0)

    halves = np.array_split(np.abs(spoken.wave), spoken.phones.size)
    heard = np.array([half.mean() for half in halves]) > 500
    assert (heard == (spoken.phones.flatten() != 8)).mean() > 0.95
    assert [(spoken.phones == phone).mean() > 0.1 for phone in (7, 8, 9)] == [True] * 3
    voiced = spoken.pitch.flatten() > 0
    sounds = np.array([p.mean() for p in np.array_split(np.abs(spoken.wave), voiced.size)]) > 500
    assert (voiced == sounds).mean() > 0.95
    assert np.median(spoken.pitch[spoken.pitch > 0]) == pytest.approx(np.log2(200 * joint), abs=0.01)
