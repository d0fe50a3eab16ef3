"""Everybody whom a stage may hear."""

import pytest

from demo_voice.recipe import FULL
from demo_voice.teachers import people
from demo_voice.teachers.accents import ACCENTS
from demo_voice.teachers.flite import HELD_OUT_VOICE, MANNERS
from demo_voice.teachers.neighbours import NEIGHBOURS
from demo_voice.teachers.people import PEOPLE


def test_nobody_is_held_out_or_twice() -> None:
    assert len(PEOPLE) == len(MANNERS) + len(ACCENTS) + len(NEIGHBOURS)
    assert HELD_OUT_VOICE not in {manner.voice for manner in PEOPLE.values()}
    assert not {manner.name for manner in ACCENTS} & set(FULL.pretrained)


def test_each_is_asked_in_the_way_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    for teacher in people.TEACHERS:
        monkeypatch.setattr(teacher, "speak", lambda text, manner, by=teacher: by)
        monkeypatch.setattr(teacher, "phone_times", lambda text, manner, by=teacher: by)
    for manner, teacher in zip(("slt", "lp", "clb"), people.TEACHERS, strict=True):
        for ask in (people.speak, people.phone_times):
            assert ask("Hello.", PEOPLE[manner]) is teacher
