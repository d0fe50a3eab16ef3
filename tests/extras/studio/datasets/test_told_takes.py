"""Bad takes are named and good ones accepted, on sentences not used to choose a limit."""

import shutil

import numpy as np
import pytest

from tests.api.sounds import speech
from tests.extras.studio.datasets import takes
from xtts.evaluation.recogniser import can_hear_english


def test_no_sentence_of_the_figures_is_one_on_which_limits_were_chosen():
    reporting, choosing = takes.sentences("reporting"), takes.sentences("choosing")
    assert len(set(reporting)) == len(set(choosing)) == 60
    assert not set(reporting) & set(choosing)


def test_what_is_found_is_told_by_its_kind(monkeypatch):
    """Without flite: a buzz replaces the speech."""
    buzz = speech(2.0, takes.RATE)
    monkeypatch.setattr(takes, "spoken", lambda _text: buzz / np.abs(buzz).max() * 0.5)
    assert takes.found_in(takes.silent("", 0), "", None) == ["no_speech"]
    assert takes.found_in(takes.silent("", 1), "", None) == ["silent"]
    assert takes.found_in(takes.good("", 0), "", None) == []
    assert takes.found_in(takes.cut("", 0), "", None) == ["cut_start"]
    assert takes.found_in(takes.cut("", 1), "", None) == ["cut_end"]
    for make, kind in ((takes.clipped, "clipped"), (takes.noisy, "noisy"), (takes.quiet, "quiet")):
        assert kind in takes.found_in(make("", 0), "", None)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("flite") is None, reason="flite is not installed")
@pytest.mark.skipif(not can_hear_english(), reason="pocketsphinx is not installed")
def test_twenty_of_twenty_are_named_and_at_most_one_of_sixty_is_refused():
    missed = takes.misjudged(takes.sentences("reporting"), each=5, num_good=60)
    assert not any(missed[kind] for kind in takes.SERIOUS), missed
    assert len(missed["good"]) <= 1, missed
