"""Each fault of an utterance has its verdict; a good utterance has none."""

import numpy as np
import pytest

from tests.xtts.inference.alignment.attention_rows import LAST, SPOKEN, rows, spoken_at, whole
from xtts.inference.alignment.guard import Ending, align, find_repetition, judge_ending

TOKENS = int(SPOKEN.sum())
FIRST_HALF, SECOND_HALF = spoken_at(1, 2, 3, 5, 6), spoken_at(7, 9, 10, 11, 12)
TAIL = [LAST + 1] * 7


def verdict(places, *, stopped=True, sharp=0.9, codes=None, loud=None):
    said_codes = np.arange(len(places) - stopped) if codes is None else codes
    path = align(rows(places, sharp), SPOKEN)
    return judge_ending(said_codes, stopped=stopped, alignment=path, tokens=TOKENS, loud=loud)


@pytest.mark.parametrize("sharp", [0.95, 0.7, 0.5])
@pytest.mark.parametrize("closing", [5, 7, 13])
def test_an_utterance_that_is_as_it_should_be_is_good(sharp, closing):
    judged = verdict(whole(closing), sharp=sharp)
    assert judged.is_good and judged.covered == 1.0 and judged.aligned and not judged.reason


@pytest.mark.parametrize(
    ("places", "stopped", "ending", "reason"),
    [
        (FIRST_HALF, True, Ending.UNFINISHED, "stopped after 5"),
        (FIRST_HALF, False, Ending.CUT, "code limit after 5"),
        ([*FIRST_HALF, *SECOND_HALF, LAST + 1], True, Ending.UNFINISHED, "last sound"),
        ([*spoken_at(1, 2), *spoken_at(11, 12), *TAIL], True, Ending.UNFINISHED, "6 tokens in a row"),
        ([*FIRST_HALF, *spoken_at(2, 3, 5, 6), *SECOND_HALF, *TAIL], True, Ending.REPEATED, "went back"),
        ([*FIRST_HALF, *[6] * 14, *SECOND_HALF, *TAIL], True, Ending.STALLED, "on one sound"),
        ([*FIRST_HALF, *[-1] * 16, *SECOND_HALF, *TAIL], True, Ending.STALLED, "lost the text"),
        ([*whole(), *[LAST + 1] * 20], True, Ending.CONTINUED, "after the last word"),
        ([*whole(), *[-1] * 40], False, Ending.CONTINUED, "after the last word"),
        ([*whole(), *spoken_at(9, 10, 11, 12), *TAIL], True, Ending.REPEATED, "repeated"),
    ],
)
def test_each_fault_is_found_and_told(places, stopped, ending, reason):
    judged = verdict(places, stopped=stopped)
    assert (judged.ending, judged.is_good) == (ending, False) and reason in judged.reason


@pytest.mark.parametrize(("stay", "good"), [(12, True), (16, False)])
def test_a_voice_that_takes_three_codes_a_token_may_stay_longer_on_one(stay, good):
    """The limit grows with the pace: 12 codes are four times as long, 16 more than five."""
    slow = [spoken_at(place, codes=stay if place == 6 else 3) for place in np.flatnonzero(SPOKEN)]
    judged = verdict([*(place for places in slow for place in places), *TAIL])
    assert judged.is_good is good, judged.reason
    assert good or "on one sound" in judged.reason


def test_sound_behind_the_last_word_may_be_cut_off_and_a_missing_end_may_not():
    babbling = verdict([*whole(), *[-1] * 40], stopped=False)
    end = len(whole()) - 7
    assert babbling.kept_codes is not None and end < babbling.kept_codes <= end + 7
    assert verdict(FIRST_HALF).kept_codes is None
    assert babbling.rank > verdict([*FIRST_HALF, *SECOND_HALF]).rank > verdict(FIRST_HALF).rank
    assert verdict(whole()).rank > babbling.rank


def loudness(count, quiet):
    return np.arange(count) < count - quiet


@pytest.mark.parametrize(
    ("closing", "quiet", "ending"),
    [
        (2, 2, Ending.GOOD),
        (7, 0, Ending.UNFINISHED),
        (7, 1, Ending.GOOD),
        (7, 4, Ending.GOOD),
        (20, 16, Ending.GOOD),
        (16, 2, Ending.CONTINUED),
    ],
)
def test_where_the_sound_is_known_it_tells_whether_the_last_word_was_over(closing, quiet, ending):
    places = whole(closing)
    # The sound of STOP contains the vocoder's click, which does not count as loud.
    loud = np.append(loudness(len(places) - 1, quiet), False)
    assert verdict(places, loud=loud).ending is ending


@pytest.mark.parametrize("closing", [0, 4])
def test_one_quiet_code_is_an_end_but_not_before_a_burst(closing):
    """A recording of a person ends 30 to 100 ms after the last sound, and so does a voice that
    learned from it."""
    places = [*FIRST_HALF, *SECOND_HALF, *[LAST + 1] * closing]
    loud = loudness(len(places), 2)
    assert verdict(places, loud=loud).is_good
    # The burst of a last plosive has begun.
    loud[-3:] = [False, True, False]
    assert verdict(places, loud=loud).ending is Ending.UNFINISHED


def test_attention_that_stays_on_the_last_token_is_good_where_its_sound_was_over():
    places = [*FIRST_HALF, *SECOND_HALF]
    assert verdict(places, loud=loudness(len(places), 4)).is_good
    assert verdict(places, loud=loudness(len(places), 0)).ending is Ending.UNFINISHED
    assert verdict(FIRST_HALF, loud=loudness(len(FIRST_HALF), 4)).ending is Ending.UNFINISHED


def test_codes_that_come_again_one_by_one_are_a_repetition():
    codes = np.random.default_rng(0).integers(0, 1000, 40)
    assert find_repetition(codes) is None
    assert find_repetition([*codes[:30], *codes[10:30], *codes[30:]]) == 30
    assert find_repetition([*codes[:30], *codes[24:30], *codes[30:]]) == 30  # a short word
    assert find_repetition([*codes[:20], *[7] * 40, *codes[20:]]) is None  # a held sound, or silence
    assert find_repetition(np.zeros(0, int)) is None
    # Only a repetition after the last word can be cut off.
    behind = [*codes[:20], *codes[14:20]]
    for again, cut in ((np.resize(codes[:13], len(whole()) - 1), False), (behind, True)):
        judged = verdict(whole(), codes=again)
        assert (judged.ending, judged.kept_codes is not None) == (Ending.REPEATED, cut)


@pytest.mark.parametrize(
    ("count", "stopped", "ending"),
    [
        (5, True, Ending.UNFINISHED),
        (30, True, Ending.GOOD),
        (30, False, Ending.CUT),
        (200, True, Ending.CONTINUED),
    ],
)
def test_without_attention_length_and_repetition_tell(count, stopped, ending):
    codes = np.random.default_rng(1).integers(0, 1000, count)
    judged = judge_ending(codes, stopped=stopped, alignment=None, tokens=20)
    assert (judged.ending, judged.aligned) == (ending, False)
    again = judge_ending([*codes, *codes], stopped=True, alignment=None, tokens=20)
    assert again.ending is (Ending.REPEATED if count > 5 else Ending.UNFINISHED)


def test_a_code_is_46_milliseconds():
    judged = judge_ending(np.arange(200), stopped=True, alignment=None, tokens=20)
    assert judged.reason == "9.3 s are too long for 20 tokens"


def test_text_without_a_token_that_is_said_is_judged_by_length():
    path = align(rows(whole()), np.zeros(len(SPOKEN), bool))
    assert not judge_ending(np.arange(20), stopped=True, alignment=path, tokens=10).aligned
