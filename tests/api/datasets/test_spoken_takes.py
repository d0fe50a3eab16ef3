"""Bad takes are named and good ones are not refused, on sentences that no limit was chosen on."""

import importlib.util
import shutil

import pytest

from api.datasets.prompts import built_in
from tests.api.datasets.spoken_takes import (
    clipped,
    cut_end,
    cut_start,
    found_in,
    good,
    hearing,
    in_a_room,
    silent,
    spoken,
)  # fmt: skip

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("flite") is None, reason="flite is not installed"),
    pytest.mark.skipif(
        importlib.util.find_spec("pocketsphinx") is None, reason="pocketsphinx is not installed"
    ),
]
TEXTS = built_in("en")
EACH = 5
CUTS = {"cut_start", "cut_end"}


def test_twenty_of_twenty_bad_takes_are_named():
    hear, missed = hearing(), []
    for number in range(EACH):
        # A sentence of its own for each of the twenty.
        one, two, three, four, other = (TEXTS[number + EACH * place] for place in range(5))
        cut = cut_end if number % 2 else cut_start
        cases = [
            ({"silent", "no_speech"}, silent(one, number), one),
            ({"clipped"}, clipped(two, number), two),
            (CUTS, cut(three, number), three),
            ({"words"}, in_a_room(spoken(other), number), four),
        ]
        for wanted, sound, text in cases:
            if not wanted & set(found := found_in(sound, text, hear)):
                missed.append((wanted, found, text))
    assert not missed


def test_at_most_one_of_sixty_good_takes_is_refused():
    hear = hearing()
    found = {text: found_in(good(text, seed), text, hear) for seed, text in enumerate(TEXTS)}
    assert len(found) == 60
    refused = {text: kinds for text, kinds in found.items() if kinds}
    print(refused)
    assert len(refused) <= 1, refused
