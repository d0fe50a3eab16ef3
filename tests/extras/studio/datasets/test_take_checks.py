"""Findings in a take, with a recogniser whose transcript the test chooses."""

import io
import wave

import numpy as np
import pytest

from extras.studio.datasets.take_checks import MARGIN_SECONDS, check, words_in
from tests.api.sounds import speech

RATE = 22_050
TEXT = "A small fire was burning in the next room."


def with_silence(sound: np.ndarray, seconds: float = 0.5) -> np.ndarray:
    hiss = np.random.default_rng(1).normal(0, 3e-4, len(sound) + int(2 * seconds * RATE))
    around = int(seconds * RATE)
    return (np.pad(sound, around) + hiss).astype(np.float32)


def found(sound: np.ndarray, heard: str | None = TEXT, text: str = TEXT):
    wav, told = check(sound, RATE, text, "en", None if heard is None else lambda _: heard)
    return wav, told, [finding["kind"] for finding in told["findings"]]


def test_a_good_take_is_trimmed_and_nothing_is_found():
    sound = with_silence(speech(3.0), 1.0)
    wav, told, kinds = found(sound)
    assert kinds == [] and told["usable"] and told["heard"] == TEXT
    assert 3.0 - 0.35 <= told["seconds"] <= 3.0 + 2 * MARGIN_SECONDS + 0.05
    with wave.open(io.BytesIO(wav)) as file:
        assert file.getnframes() / file.getframerate() == pytest.approx(told["seconds"], abs=0.001)
    assert 1 < len(told["levels"]) <= 120 and max(told["levels"]) > -25


CASES = {
    "silent": np.zeros(2 * RATE, np.float32),
    "no_speech": np.random.default_rng(1).normal(0, 0.1, 2 * RATE).astype(np.float32),
    "quiet": with_silence(speech(3.0)) * 0.02 + 0,
    "noisy": with_silence(speech(3.0))
    + np.random.default_rng(2).normal(0, 0.012, 4 * RATE).astype(np.float32),
    "clipped": (with_silence(speech(3.0)) * 40).clip(-1, 1),
    "cut_start": with_silence(speech(3.0))[int(0.58 * RATE) :],
    "cut_end": with_silence(speech(3.0))[: -int(0.75 * RATE)],
    "short": with_silence(speech(3.0)[: int(0.05 * RATE)]),
    "long": with_silence(speech(14.0)),
}


@pytest.mark.parametrize("kind", CASES)
def test_a_bad_take_is_named(kind):
    _, told, kinds = found(CASES[kind], heard=None)
    assert kind in kinds
    assert told["usable"] == (kind not in ("silent", "no_speech", "short", "long"))
    for finding in told["findings"]:
        assert finding["sentence"].endswith(".") and finding["sentence"][0].isupper()


def test_other_words_are_named_with_what_was_heard():
    sound = with_silence(speech(3.0))
    _, told, kinds = found(sound, heard="nobody knew why the bell rang twice")
    assert kinds == ["words"] and "bell rang twice" in told["findings"][0]["sentence"]
    assert "heard no words" in found(sound, heard="")[1]["findings"][0]["sentence"]
    # A recogniser mishears a few words anyway.
    assert found(sound, heard="a small fire was turning in the next groom")[2] == []


def test_numbers_are_compared_as_words():
    assert words_in("Read 12 pages!", "en-gb") == ["read", "twelve", "pages"]
    assert words_in("Don't go.", "en") == ["don't", "go"]
