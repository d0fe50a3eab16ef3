"""Everybody whom a stage may hear."""

import pytest

from train.base import accents, articulation, neighbours, people
from train.base.accents import ACCENTS
from train.base.neighbours import NEIGHBOURS
from train.base.people import GROUP_OF, PEOPLE
from train.base.recipe import FULL
from train.base.teacher import HELD_OUT_VOICE, MANNERS


def test_nobody_is_held_out_or_twice() -> None:
    assert len(PEOPLE) == len(MANNERS) + len(ACCENTS) + len(NEIGHBOURS)
    assert HELD_OUT_VOICE not in {manner.voice for manner in PEOPLE.values()}
    assert not {manner.name for manner in ACCENTS} & set(FULL.pretrained)


def test_each_is_asked_in_the_way_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    ways = {articulation: "told_by_flite", accents: "told", neighbours: "told"}
    for module, name in ways.items():
        monkeypatch.setattr(module, name, lambda text, manner, by=module: [(by.__name__, 1.0)])
    for manner in ("slt", "lp", "clb"):
        module = list(ways)[GROUP_OF[manner]]
        assert people.told("Hello.", PEOPLE[manner]) == [(module.__name__, 1.0)]
