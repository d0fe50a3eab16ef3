"""The accent as a judge of a run, on the demo's recordings."""

import logging
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from extras.accent import judge as accent
from extras.accent.child import ListeningChild
from machine.errors import SotaqueError
from tests.extras.accent.test_way import voice
from tests.installed import ROOT
from train.dataset.dataset import Clip
from train.evaluation.further_judges import FurtherJudge
from xtts import audio, encoding

DEMO = ROOT / "train" / "data" / "demo"


def clips_of(count: int, seconds: float = 4.0) -> list[Clip]:
    """The demo's first clips, which claim this length."""
    rows = (DEMO / "metadata.csv").read_text("utf-8").splitlines()[:count]
    named = (row.split("|")[:2] for row in rows)
    return [
        Clip(name, DEMO / "wavs" / f"{name}.flac", text, "emma", "en", seconds, name, (1,))
        for name, text in named
    ]


def spoken_by(folder: Path, clips: list[Clip], rate: int) -> list[Path]:
    """The clips as a candidate's sounds, played at another rate."""
    folder.mkdir()
    for clip in clips:
        encoding.write_wav(folder / f"{clip.name}.wav", audio.read(clip.path, 16_000).numpy(), rate)
    return [folder / f"{clip.name}.wav" for clip in clips]


@pytest.fixture
def _with_pocketsphinx():
    pytest.importorskip("pocketsphinx", reason="it has wheels for Python 3.11 and 3.13")


@pytest.mark.usefixtures("_with_pocketsphinx")
def test_the_person_is_at_the_end_of_the_way(tmp_path):
    judge: FurtherJudge = accent.judge_of(clips_of(14), "en")
    assert (len(judge.clips), judge.description.absent, judge.description.further) == (12, None, True)
    base = spoken_by(tmp_path / "base", judge.clips, 20_000)
    person = spoken_by(tmp_path / "person", judge.clips, 16_000)
    figure = judge.figure(base, person)
    assert figure.mean == pytest.approx(1, abs=0.1)
    assert figure.low <= figure.mean <= figure.high
    assert figure.count == 12
    vowels = figure.details["vowels"]
    assert 4 <= len(vowels) <= 8
    assert all(np.allclose(vowel["person"], vowel["candidate"], atol=0.02) for vowel in vowels)
    assert any(vowel["reached"] for vowel in vowels)
    assert figure.note.endswith("now nearer to the person's than to the base's.")
    for path in base[:5]:  # sentences that failed
        path.unlink()
    assert accent.judge_of(clips_of(14), "en").figure(base, person) is None


@pytest.mark.usefixtures("_with_pocketsphinx")
@pytest.mark.parametrize(("count", "seconds"), [(9, 9.0), (12, 3.0)])
def test_with_too_little_speech_nothing_is_heard_and_there_is_no_figure(count, seconds, monkeypatch):
    monkeypatch.delattr(ListeningChild, "hear")
    judge = accent.judge_of(clips_of(count, seconds), "en")
    assert list(judge.clips) == []
    assert "it needs 10 validation clips of 40 s" in judge.description.absent
    assert f"{count * seconds:.0f} s can be used" in judge.description.absent


@pytest.mark.usefixtures("_with_pocketsphinx")
def test_clips_that_cannot_be_aligned_do_not_count(monkeypatch):
    alignable = iter([object()] * 9)
    monkeypatch.setattr(ListeningChild, "hear", lambda *_: next(alignable, None))
    judge = accent.judge_of(clips_of(12, 5.0), "en")
    assert list(judge.clips) == []
    assert "9 validation clips of 45 s can be used" in judge.description.absent


def test_it_is_for_english_and_for_installations_with_pocketsphinx(monkeypatch):
    assert "English" in accent.judge_of(clips_of(1), "de").description.absent
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    assert "pocketsphinx" in accent.judge_of(clips_of(1), "en-gb").description.absent


def test_equal_accents_are_told_once(monkeypatch, tmp_path, caplog):
    heard = voice(0, 1)[0]
    monkeypatch.setattr(ListeningChild, "hear", lambda _ear, _samples, _text: heard)
    monkeypatch.setattr(accent, "_cannot_judge", lambda _language: None)
    monkeypatch.setattr(accent.VowelSums, "accent_figure", lambda _sums: None)
    judge = accent.judge_of(clips_of(12), "en")
    sounds = spoken_by(tmp_path / "all", judge.clips, 16_000)
    with caplog.at_level(logging.INFO, "train"):
        assert judge.figure(sounds, sounds) is None
        assert judge.figure(sounds, sounds) is None
    assert caplog.text.count("base and person cannot be distinguished by 12 sentences") == 1


@pytest.mark.usefixtures("_with_pocketsphinx")
def test_a_child_that_ended_is_replaced():
    ear, (clip,) = ListeningChild(), clips_of(1)
    samples = audio.read(clip.path, 16_000).numpy()
    heard = ear.hear(samples, clip.text)
    assert ear.hear(samples, "A word xqzzy.") is None
    os.kill(ear._child.pid, signal.SIGKILL)
    with pytest.raises(SotaqueError, match="pocketsphinx failed"):
        ear.hear(samples, clip.text)
    assert ear.hear(samples, clip.text).words == heard.words
