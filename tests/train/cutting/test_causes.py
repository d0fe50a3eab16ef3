"""What is said where little could be cut: loudness, order, and how little it is."""

import numpy as np

from train.cutting.by_words import heard_whole, wrong_order
from train.cutting.command import little_kept, summed
from train.cutting.cutter import clipping
from train.cutting.manuscript import Cue, Manuscript, manuscript_of
from train.cutting.planning import IN_A_CLIP, SILENCE, UNSURE
from train.cutting.profile import SoundProfile
from train.cutting.recogniser import HeardWord

SENTENCES = (
    "The harbour was quiet today.", "Seven grey geese flew away.", "Nobody told the old baker.",
    "Yes.",
)  # fmt: skip


def text_of(*sentences: str) -> Manuscript:
    return manuscript_of([Cue(" ".join(sentences))], "en")


def heard_of(*sentences: str) -> list[HeardWord]:
    words = text_of(*sentences).words
    return [HeardWord(word, float(place), place + 0.5) for place, word in enumerate(words)]


def profile(clipped_share: float) -> SoundProfile:
    clipped = np.zeros(320, bool)
    clipped[: round(320 * clipped_share)] = True
    return SoundProfile(np.full(320, -20.0), np.ones(100), clipped)


def test_clipping_is_a_cause_from_a_twentieth_of_the_speech() -> None:
    assert clipping([profile(0.02)]) == ""
    assert "50% of the speech is clipped" in clipping([profile(0.5)])
    assert "25% of" in clipping([profile(0.5), profile(0.0)])
    silent = SoundProfile(np.full(320, -80.0), np.zeros(100), np.ones(320, bool))
    assert clipping([silent]) == ""


def test_another_order_is_a_cause_where_most_is_heard() -> None:
    text = text_of(*SENTENCES)
    one, two, three, short = SENTENCES
    assert wrong_order(heard_of(one, two, three, short), text) == ""
    assert "sentence 3 before sentence 1." in wrong_order(heard_of(three, one, two), text)
    assert "sentence 2 before sentence 1." in wrong_order(heard_of(two, one), text)
    assert wrong_order(heard_of("A foreign text."), text) == ""
    assert heard_whole(heard_of(three, short, one), text) == [2, 0]
    # What is heard twice says nothing of its place.
    assert heard_whole(heard_of(two, one, two), text) == [0]


def test_little_is_less_than_half_of_the_speech() -> None:
    much = {IN_A_CLIP: 110.0, UNSURE: 100.0, SILENCE: 900.0}
    assert little_kept([much]) == ""
    little = {IN_A_CLIP: 10.0, UNSURE: 200.0, "clipped": 10.0, SILENCE: 900.0}
    found = little_kept([little])
    assert "10 of 220 s" in found and "(200 s)" in found and "compare the text" in found
    assert little_kept([little, {IN_A_CLIP: 300.0}]) == ""
    assert summed([much, little])[IN_A_CLIP] == 120.0
