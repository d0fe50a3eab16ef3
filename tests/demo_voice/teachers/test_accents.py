"""People of other tongues, on machines with and without Festival."""

import random
import shutil
from types import SimpleNamespace

import numpy as np
import pytest

from demo_voice.teachers import accents, flite
from demo_voice.teachers.accents import ACCENTS
from demo_voice.teachers.flite import RATE, SpeakingStyle, TeacherError
from demo_voice.vocoder import SHARES, Draws


def named(name: str) -> SpeakingStyle:
    return next(manner for manner in ACCENTS if manner.name == name)


def test_english_is_spelled_in_the_letters_of_another_tongue():
    assert accents.spelled("The ship.", named("ked")) == "The ship."
    assert accents.spelled("She saw a ship.", named("lp")).isascii()
    finnish = accents.spelled("Time to go.", named("lj"))
    assert finnish.startswith("taim") and finnish.endswith("gou.")
    cyrillic = accents.spelled("Time to go.", named("nsh"))
    assert not any("a" <= letter <= "z" for letter in cyrillic)


def test_every_phone_has_letters():
    from xtts.text.phonemes import PHONES

    for manner in ACCENTS[1:]:
        letters = accents._LETTERS
        spelled = "".join(letters.get(phone, phone) for phone in PHONES.values())
        assert spelled.isalpha() and spelled.islower(), manner


def test_they_speak_in_turns():
    planned = accents.plan([f"Sentence {number}." for number in range(2 * len(ACCENTS))])
    assert [manner for _, manner in planned] == [*ACCENTS, *ACCENTS]


def test_without_festival_the_packages_are_named(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(TeacherError, match=r"apt-get install festival .*festvox-ru"):
        accents.Festival("ked_diphone")


def test_without_its_voice_the_packages_are_named(monkeypatch, tmp_path):
    program = tmp_path / "festival"
    program.write_text("#!/bin/sh\nread command\nexit 255\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(TeacherError, match=r"ended with 255 at .*apt-get install festival"):
        accents.Festival("ked_diphone")


def test_phones_of_other_tongues_are_called_as_the_nearest_english_ones():
    found = [accents._english(phone) for phone in ("#", "a1", "O1", "ss", "tS", "t", "uu", "x")]
    assert found == ["pau", "aa", "ao", "s", "ch", "t", "uw", "hh"]
    assert set(found) <= set(flite.NAMES)
    assert accents._english("?") == "?"  # told to nobody


@pytest.mark.skipif(not shutil.which("festival"), reason="Festival is not installed")
def test_they_can_be_heard():
    for manner in (named("ked"), named("lp")):
        samples = accents.speak('A "small" test.', manner)
        assert samples.dtype == np.int16 and len(samples) > 8_000
        assert np.abs(samples).max() > 1_000
        pairs = accents.phone_times('A "small" test.', manner)
        assert pairs[-1][1] == pytest.approx(len(samples) / RATE, abs=0.05)
        assert "s" in [name for name, _ in pairs]


def test_few_clips_of_other_tongues_count_as_much_as_many():
    manners = ["slt"] * 95 + ["lp"] * 5
    targets = SimpleNamespace(
        clips=[SimpleNamespace(manner=name) for name in manners], counts=[40] * 98 + [10, 400]
    )
    draws = Draws(targets, {"slt", "lp"}, 26)  # type: ignore[arg-type]
    found = draws.some(random.Random(1), 4_000)
    assert {98, 99}.isdisjoint(found)  # one is too short, one too long
    share = sum(index >= 95 for index in found) / len(found)
    assert share == pytest.approx(SHARES[1] / (SHARES[0] + SHARES[1]), abs=0.03)
    assert set(Draws(targets, {"lp"}, 26).some(random.Random(1), 50)) <= {95, 96, 97}  # type: ignore[arg-type]
    assert max(Draws(targets, {"slt"}, 26).some(random.Random(1), 50)) < 95  # type: ignore[arg-type]
