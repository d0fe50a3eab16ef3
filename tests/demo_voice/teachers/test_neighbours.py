"""More English people, on machines with and without the programs that speak as them."""

import shutil
from types import SimpleNamespace

import numpy as np
import pytest

from demo_voice.recipe import FULL
from demo_voice.teachers import flite, neighbours
from demo_voice.teachers.flite import RATE, TeacherError
from demo_voice.teachers.neighbours import NEIGHBOURS
from demo_voice.teachers.people import PEOPLE

SENTENCE = "The kitchen smelled of fresh bread."


def test_the_held_out_voice_is_not_heard_under_another_name():
    """RHVoice's alan is a Scot as flite's awb is, and perhaps the same man."""
    assert "alan" not in {manner.voice for manner in NEIGHBOURS}
    assert {"bdl", "clb"} <= set(FULL.pretrained) <= set(PEOPLE)


def test_without_its_program_the_packages_are_named(monkeypatch):
    monkeypatch.setenv("PATH", "")
    for name in ("bdl", "pico-us"):
        with pytest.raises(TeacherError, match=r"apt-get install rhvoice .*non-free"):
            neighbours.speak(SENTENCE, PEOPLE[name])


def test_a_program_that_says_nothing_is_named(monkeypatch, tmp_path):
    program = tmp_path / "RHVoice-test"
    program.write_text("#!/bin/sh\necho no such voice >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(TeacherError, match=r"RHVoice-test did not speak .*no such voice"):
        neighbours.speak(SENTENCE, PEOPLE["bdl"])


def word(name: str, *phones: str) -> SimpleNamespace:
    """A word of 0.1 s a phone, as pocketsphinx gives it."""
    entries = [
        SimpleNamespace(name=phone, start=10 * place, duration=10)
        for place, phone in enumerate(phones)
    ]

    class Heard(SimpleNamespace):
        def __iter__(self):  # type: ignore[no-untyped-def]
            return iter(entries)

    return Heard(name=name)


def test_the_dictionary_tells_a_schwa_from_the_vowel_of_cup():
    cup = neighbours._phones(word("cup", "K", "AH", "P"))
    assert cup == [("k", 0.1), ("ah", pytest.approx(0.2)), ("p", pytest.approx(0.3))]
    about = neighbours._phones(word("about(2)", "AH", "B", "AW", "T"))
    assert [name for name, _ in about] == ["ax", "b", "aw", "t"]
    assert neighbours._phones(word("cup", "AH", "K", "AH", "P"))[0][0] == ""  # as many, or nothing
    assert neighbours._phones(word("<sil>", "SIL"))[0][0] == flite.SILENCE


@pytest.mark.skipif(not shutil.which("RHVoice-test"), reason="RHVoice is not installed")
def test_they_can_be_heard_and_their_phones_found():
    pytest.importorskip("pocketsphinx")
    manner = PEOPLE["bdl"]
    samples = neighbours.speak(SENTENCE, manner)
    assert samples.dtype == np.int16 and RATE < len(samples) < 4 * RATE
    assert np.array_equal(samples, neighbours.speak(SENTENCE, manner))
    pairs = neighbours.phone_times(SENTENCE, manner)
    names = [name for name, _ in pairs if name != flite.SILENCE]
    assert names[2:6] == ["k", "ih", "ch", "ax"]
    assert pairs[-1][1] == pytest.approx(len(samples) / RATE, abs=0.1)
    assert not neighbours.phone_times("Qwertyuiopas.", manner)  # no such word


@pytest.mark.skipif(not shutil.which("RHVoice-test"), reason="RHVoice is not installed")
def test_who_is_played_faster_speaks_slower_before():
    plain, small = (neighbours.speak(SENTENCE, PEOPLE[name]) for name in ("bdl", "bdl-small"))
    assert len(small) == pytest.approx(len(plain), rel=0.05)


@pytest.mark.skipif(not shutil.which("pico2wave"), reason="SVOX Pico is not installed")
def test_pico_s_women_can_be_heard():
    for name in ("pico-us", "pico-gb"):
        assert len(neighbours.speak(SENTENCE, PEOPLE[name])) > RATE
