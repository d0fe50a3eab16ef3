"""A crowd made of few people."""

import numpy as np
import pytest

from demo_voice.recipe import FULL
from demo_voice.teachers import crowd, flite, neighbours, people, phone_timing
from demo_voice.teachers.crowd import CROWD
from demo_voice.teachers.flite import HELD_OUT_VOICE, SpeakingStyle


def test_nobody_in_it_is_like_another() -> None:
    assert len({one.name for one in CROWD}) == len(CROWD) == crowd.SIZE
    assert len({(one.voice, one.shift, crowd._timbre(one.name)) for one in CROWD}) == len(CROWD)
    assert HELD_OUT_VOICE not in {one.voice for one in CROWD}
    names = {one.name for one in CROWD}
    assert not names & set(FULL.pretrained) and names < set(FULL.among_crowd().pretrained)


def test_its_people_are_always_the_same() -> None:
    assert tuple(crowd._drawn()) == CROWD
    first, second = crowd._timbre(CROWD[0].name), crowd._timbre(CROWD[1].name)
    crowd._timbre.cache_clear()
    assert crowd._timbre(CROWD[0].name) == first != second


def test_no_rate_takes_a_long_filter() -> None:
    """Resampling by 14857 to 16000 makes one of 16,000 phases: 20 s of work."""
    for one in CROWD:
        assert np.gcd(int(flite.RATE * one.shift), flite.RATE) >= 400


def test_two_of_one_voice_differ_by_their_filters(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = (np.random.default_rng(0).normal(size=16_000) * 1000).astype(np.int16)
    monkeypatch.setattr(flite, "flite", lambda text, manner: noise)
    one, other = [style for style in CROWD if style.voice == "rms"][:2]
    spectra = [
        np.log(np.abs(np.fft.rfft(crowd.speak("Hello.", style).astype(float))) + 1)
        for style in (one, one, other)
    ]
    assert np.array_equal(spectra[0], spectra[1])
    assert np.abs(spectra[0] - spectra[2]).mean() > 0.1


@pytest.mark.parametrize(
    ("voice", "module", "name"),
    [("slt", phone_timing, "told_by_flite"), ("clb", neighbours, "told")],
)
def test_its_phones_are_told_by_who_speaks(
    monkeypatch: pytest.MonkeyPatch, voice: str, module: object, name: str
) -> None:
    def told(text: str, manner: SpeakingStyle) -> list[tuple[str, float]]:
        return [(manner.name, 1.0)]

    monkeypatch.setattr(module, name, told)
    one = next(style for style in CROWD if style.voice == voice)
    assert people.told("Hello.", one) == [(one.name, 1.0)]
