"""Everybody whom a stage may hear."""

import pytest

from demo_voice.recipe import FULL
from demo_voice.teachers import accents, neighbours, people, phone_timing
from demo_voice.teachers.accents import ACCENTS
from demo_voice.teachers.flite import HELD_OUT_VOICE, MANNERS
from demo_voice.teachers.neighbours import NEIGHBOURS
from demo_voice.teachers.people import GROUP_OF, PEOPLE


def test_nobody_is_held_out_or_twice() -> None:
    assert len(PEOPLE) == len(MANNERS) + len(ACCENTS) + len(NEIGHBOURS)
    assert HELD_OUT_VOICE not in {manner.voice for manner in PEOPLE.values()}
    assert not {manner.name for manner in ACCENTS} & set(FULL.pretrained)


def test_each_is_asked_in_the_way_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    ways = {
        phone_timing: "flite_phone_times",
        accents: "phone_times",
        neighbours: "phone_times",
    }
    for module, name in ways.items():
        monkeypatch.setattr(module, name, lambda text, manner, by=module: [(by.__name__, 1.0)])
    for manner in ("slt", "lp", "clb"):
        module = list(ways)[GROUP_OF[manner]]
        assert people.phone_times("Hello.", PEOPLE[manner]) == [(module.__name__, 1.0)]
