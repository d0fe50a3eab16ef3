"""What is measured of a cut: of made clips, and of a small recording by flite."""

import json
import shutil

import numpy as np
import pytest

from benchmarks import cutting
from benchmarks.__main__ import main
from benchmarks.cutting import UNSAID, KnownRecording, SpokenWord, make

pytest.importorskip("pocketsphinx", reason="it has wheels for Python 3.11 and 3.13")
needs_flite = pytest.mark.skipif(shutil.which("flite") is None, reason="apt-get install flite")
PHONES = [(0.0, 1.0), (1.0, 2.0), (3.0, 4.0)]


def test_what_is_kept_is_a_share_of_the_phones():
    assert cutting.kept(PHONES, [(0.0, 5.0)]) == 1
    assert cutting.kept(PHONES, [(0.5, 2.5)]) == pytest.approx(0.5)
    assert cutting.kept(PHONES, [(0.0, 0.5), (0.5, 1.5), (3.5, 9.0)]) == pytest.approx(2 / 3)
    assert cutting.kept(PHONES, []) == 0


def test_a_cut_is_inside_a_phone_or_at_its_edge():
    found = [cutting.in_a_phone(moment, PHONES) for moment in (0.5, 1.0, 2.5, 3.004, 3.006)]
    assert found == [True, False, False, False, True]


def test_wrong_and_missing_words_are_errors():
    words = [SpokenWord("one", 0.0, 1.0), SpokenWord("two", 1.0, 2.0)]
    known = KnownRecording(np.zeros(1), PHONES, words, "")
    assert cutting.character_errors(known, [(0.0, 1.0, "One."), (1.0, 2.0, "2")]) == 0
    assert cutting.character_errors(known, [(0.0, 2.0, "One")]) == pytest.approx(4 / 7)
    assert cutting.character_errors(known, [(0.0, 1.0, "onn")]) == pytest.approx(1 / 3)


@needs_flite
def test_the_recording_is_what_flite_says_of_it():
    sentences = ["Three cats slept.", "It cost $5 in May."]
    known = make(sentences, "slt", "rms", seed=3)
    assert [
        one.text for one in known.words
    ] == "three cats slept it cost five dollars in may".split()
    assert all(line in known.text for line in (*sentences, *UNSAID))
    loud = [np.abs(known.samples[int(a * 16_000) : int(b * 16_000)]).max() for a, b in known.phones]
    assert np.median(loud) > 0.05
    assert known.phones[-1][1] < len(known.samples) / 16_000
    assert all(one.start < one.end for one in known.words)


@needs_flite
@pytest.mark.slow
def test_a_small_recording_is_measured(capsys):
    words = ["cutting", "--voices", "slt", "--sentences", "9", "--seed", "4", "--json"]
    assert main(words) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["kept"] > 0.5 and found["clips"] >= 2
    assert found["named"] == len(UNSAID)
    assert found["character_errors"] < 0.1 and found["cuts_in_words"] <= 1
    assert found["cpu_seconds"] > 0.5 and found["peak_bytes"] > 1e8
