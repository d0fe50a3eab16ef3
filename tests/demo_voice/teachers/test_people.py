"""Everybody whom a stage may hear, and which phone sounds when."""

import shutil

import numpy as np
import pytest
import torch

from demo_voice import codec
from demo_voice.codec import Excerpts
from demo_voice.recipe import FULL
from demo_voice.teachers import flite, people
from demo_voice.teachers.accents import ACCENTS
from demo_voice.teachers.flite import MANNERS, NAMES, SpeakingStyle, TeacherSpeech
from demo_voice.teachers.neighbours import NEIGHBOURS
from demo_voice.teachers.people import PEOPLE, UNKNOWN, labels
from xtts.audio import CODE_RATE, MEL_HOP


def test_nobody_is_held_out_or_twice():
    assert len(PEOPLE) == len(MANNERS) + len(ACCENTS) + len(NEIGHBOURS)
    assert not {manner.name for manner in ACCENTS} & set(FULL.pretrained)


def test_each_is_asked_in_the_way_of_their_own(monkeypatch):
    for teacher in people.TEACHERS:
        monkeypatch.setattr(teacher, "speak", lambda text, manner, by=teacher: by)
        monkeypatch.setattr(teacher, "phone_times", lambda text, manner, by=teacher: by)
    for manner, teacher in zip(("slt", "lp", "clb"), people.TEACHERS, strict=True):
        for ask in (people.speak, people.phone_times):
            assert ask("Hello.", PEOPLE[manner]) is teacher


def test_a_frame_is_what_sounds_in_its_middle():
    frames = np.arange(172) * MEL_HOP / CODE_RATE
    found = labels([("pau", 0.5), ("ow", 1.0), ("whistle", 1.5)], len(frames))
    assert set(found[frames < 0.5]) == {NAMES.index("pau")}
    assert set(found[(frames > 0.5) & (frames < 1.0)]) == {NAMES.index("ow")}
    assert set(found[frames > 1.0]) == {UNKNOWN}  # beyond the end as well


def test_phones_are_asked_where_the_segments_were_cut():
    mels = [torch.zeros(80, 400), torch.zeros(80, 40)]
    phones = [torch.arange(400), torch.arange(40)]
    examples = Excerpts(mels, ["slt", "rms"], phones)
    places, found = examples.places(7, 16), examples.labels(7, 16)
    assert found.shape == (16, codec.FRAMES // codec.FRAMES_PER_CODE, codec.HALVES)
    for row, (clip, start) in enumerate(places):
        codes = torch.arange(32) * codec.FRAMES_PER_CODE + start
        wanted = torch.stack((codes + 1, codes + 3), dim=1)
        beyond = wanted >= len(phones[clip])
        assert torch.equal(found[row], wanted.masked_fill(beyond, UNKNOWN))


def test_what_is_unknown_asks_nothing():
    torch.manual_seed(0)
    reader = codec.PhoneReader(8)
    quantised = torch.randn(2, 32, 8, requires_grad=True)
    reader.loss(quantised, torch.full((2, 32, 2), UNKNOWN)).backward()
    assert quantised.grad is not None and not quantised.grad.any()
    said = torch.randint(0, len(NAMES), (2, 32, 2))
    assert float(reader.loss(quantised.detach(), said).detach()) == pytest.approx(
        np.log(len(NAMES)), rel=0.2
    )


def test_phones_are_asked_for_once_and_nobody_needs_to_tell(tmp_path):
    slt = PEOPLE["slt"]
    planned = [("One.", slt), ("Two.", PEOPLE["lp"])]
    flite.speak_all(planned, tmp_path, lambda text, manner: np.zeros(16_000, np.int16))
    asked = []

    def told(text: str, manner: SpeakingStyle) -> list[tuple[str, float]]:
        asked.append(text)
        return [("w", 0.3), ("ah", 2.0)] if manner == slt else []

    speech = TeacherSpeech(tmp_path)
    path = tmp_path / "phones.npz"
    first, again = (people.phones_of(speech, [0, 1], path, told) for _ in range(2))
    assert asked == ["One.", "Two."] and list(first) == list(again) == [0]
    assert torch.equal(first[0], again[0]) and len(first[0]) == 1 + CODE_RATE // MEL_HOP


@pytest.mark.skipif(not shutil.which("flite"), reason="flite is not installed")
def test_flite_tells_of_the_clip_that_it_spoke():
    manner = PEOPLE["slt-low"]
    pairs = flite.phone_times("Two green doors.", manner)
    samples = flite.speak("Two green doors.", manner)
    assert pairs[-1][1] == pytest.approx(len(samples) / flite.RATE, abs=0.02)
    assert {name for name, _ in pairs} <= set(NAMES)
