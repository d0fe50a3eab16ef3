"""Cuts only at pauses; each moment is in exactly one row of the account."""

import csv
import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from extras.common.csv_table import read_csv
from extras.cut.planning import (
    CLIPPED,
    IN_A_CLIP,
    MAX_CLIP_SECONDS,
    MIN_CLIP_SECONDS,
    NOISE,
    SILENCE,
    TOO_LONG,
    TOO_SHORT,
    UNSURE,
    PlacedUnit,
    Stretch,
    account,
    plan,
)
from extras.cut.profile import SoundProfile, pause_between
from extras.cut.writing import write_account

RATE = 22_050


def profile_of(seconds: float, spoken: list[tuple[float, float]]) -> SoundProfile:
    """-20 dB during speech, otherwise -70 dB."""
    level = np.full(round(seconds * 100), -70.0, np.float32)
    speech = np.zeros(round(seconds / 0.032) + 1, np.float32)
    for start, end in spoken:
        level[round(start * 100) : round(end * 100)] = -20.0
        speech[int(start / 0.032) : int(end / 0.032) + 1] = 1.0
    return SoundProfile(level, speech, np.zeros(len(level), bool))


def units_of(words: list[tuple[float, float]], ends: dict[int, int] | None = None) -> list[PlacedUnit]:
    """The words of one breath."""
    last = len(words) - 1
    return [
        PlacedUnit(
            f"w{place}",
            start,
            end,
            (ends or {}).get(place, 2 if place == last else 0),
            place < last,
            words[place - 1][1] if place else 0.0,
            words[place + 1][0] if place < last else 99.0,
        )
        for place, (start, end) in enumerate(words)
    ]


def planned(units: list[PlacedUnit], profile: SoundProfile) -> tuple[list[str], list[str]]:
    """The texts of the clips, and the reasons why the rest is left out."""
    clips, left = plan(units, profile)
    return [clip.text for clip in clips], [stretch.reason for stretch in left]


def seconds(clip: Any) -> float:
    return (clip.last - clip.first) / 100


def test_a_pause_is_quiet_between_two_words():
    profile = profile_of(4, [(0.5, 1.5), (2.0, 3.0)])
    pause = pause_between(profile, 1.45, 2.05)
    assert (pause.start, pause.end) == pytest.approx((1.5, 2.0), abs=0.011)
    assert pause.clip_end() == pytest.approx(1.65, abs=0.011)
    assert pause_between(profile, 0.9, 0.95) is None


def test_words_that_run_together_are_not_cut():
    words = [(0.5 + 0.5 * place, 1.0 + 0.5 * place) for place in range(30)]  # 15 s without a pause
    assert planned(units_of(words), profile_of(16, [(0.5, 15.5)])) == ([], [TOO_LONG])


def test_a_long_breath_is_cut_at_its_pauses_and_rather_at_sentences():
    words = [(0.5 + place, 1.25 + place) for place in range(40)]
    clips, left = plan(units_of(words, {9: 2, 19: 2, 29: 2}), profile_of(42, words))
    assert left == []
    assert [clip.text for clip in clips] == [
        " ".join(f"w{place}" for place in range(first, first + 10)) for first in (0, 10, 20, 30)
    ]
    assert all(MIN_CLIP_SECONDS <= seconds(clip) <= MAX_CLIP_SECONDS for clip in clips)


@pytest.mark.parametrize(
    ("words", "ends", "clips"),
    [
        ([(0.5, 0.9), (1.3, 1.7), (2.1, 2.5)], {0: 2, 1: 2}, ["w0 w1 w2"]),
        ([(0.5, 1.6), (2.1, 3.1)], {0: 2}, ["w0 w1"]),
        # Clips of one second each would be too short.
        ([(0.5, 1.6), (2.1, 3.1)], {0: 3, 1: 3}, ["w0 w1"]),
        ([(0.5, 2.6), (3.1, 5.6)], {0: 3, 1: 3}, ["w0", "w1"]),
    ],
)
def test_short_sentences_are_joined_and_a_paragraph_ends_a_clip(words, ends, clips):
    assert planned(units_of(words, ends), profile_of(7, words)) == (clips, [])


@pytest.mark.parametrize(("length", "clip"), [(0.5, 1.1), (0.3, 1.03), (0.2, None)])
def test_a_word_on_its_own_is_given_more_quiet_and_a_syllable_is_left_out(length, clip):
    word = [(1.0, 1.0 + length)]
    clips, left = plan(units_of(word), profile_of(3, word))
    assert [seconds(clip) for clip in clips] == ([pytest.approx(clip, abs=0.03)] if clip else [])
    assert [stretch.reason for stretch in left] == ([] if clip else [TOO_SHORT])


@pytest.mark.parametrize(
    ("sounds", "unit", "kept"),
    [
        ([(0.5, 2.0), (2.08, 3.0)], PlacedUnit("one", 0.5, 2.0, 2, False, 0.0, 2.05), True),
        ([(0.5, 2.0), (2.08, 3.0)], PlacedUnit("one", 0.5, 2.0, 0, False, 0.0, 2.05), False),
        *(
            (
                [(0.5, 1.0), (1.08, 3.0)],
                PlacedUnit("one", 1.1, 3.0, 2, False, 1.0, 5.0, begins_sentence=begins),
                begins,
            )
            for begins in (True, False)
        ),
    ],
)
def test_a_closure_before_an_unsure_word_is_no_pause(sounds, unit, kept):
    """At the end of a sentence 60 ms of quiet are enough: another word certainly follows."""
    assert planned([unit], profile_of(5, sounds))[0] == ["one"] * kept


def test_words_that_run_into_something_unsure_are_left_out():
    units = [PlacedUnit("one", 0.5, 2.0, 0, False, 0.0, 2.0)]
    assert planned(units, profile_of(5, [(0.5, 4.0)])) == ([], [UNSURE])


def test_a_clip_at_full_scale_is_left_out():
    profile = profile_of(4, [(0.5, 3.0)])
    profile.clipped[100:150] = True
    assert planned(units_of([(0.5, 3.0)]), profile) == ([], [CLIPPED])


@pytest.mark.parametrize(("frames", "kept"), [(1, True), (10, False)])
def test_a_clip_may_touch_full_scale_for_less_than_a_hundredth(frames, kept):
    """A loud recording touches it in most clips."""
    profile = profile_of(4, [(0.5, 3.0)])
    profile.clipped[100 : 100 + frames] = True
    assert planned(units_of([(0.5, 3.0)]), profile) == ((["w0"], []) if kept else ([], [CLIPPED]))


@pytest.mark.parametrize("beyond", [-3, 0, 70])
@pytest.mark.parametrize("rate", [8000, 16000, 22050, 44100])
def test_the_account_is_the_whole_recording(rate, beyond):
    """Levels cover 10 ms each; a recording may end inside one."""
    spoken = [(1.0, 3.0), (5.0, 5.2), (7.0, 9.5)]
    profile = profile_of(12, spoken)
    profile.level_db[1000:1150] = -30.0  # sound without words
    clips, left = plan(units_of([spoken[0]]) + units_of([spoken[1]]), profile)
    frames = 12 * rate + beyond
    rows = account(clips, left, profile, rate, frames)
    assert rows[0].first == 0
    assert rows[-1].last == frames
    assert all(row.last == other.first for row, other in itertools.pairwise(rows))
    reasons = [row.reason for row in rows if row.reason != SILENCE]
    assert reasons == [IN_A_CLIP, TOO_SHORT, UNSURE, NOISE]


@pytest.mark.parametrize(("ends", "clips"), [(2, 0), (3, 2)], ids=["sentence", "paragraph"])
def test_short_quiet_is_a_pause_at_the_end_of_a_paragraph_only(ends, clips):
    words = [(0.5 + place, 1.5 + place) for place in range(8)]  # 8 s without a pause
    words += [(8.58 + place, 9.58 + place) for place in range(8)]
    found, left = plan(units_of(words, {7: ends}), profile_of(18, [(0.5, 8.5), (8.58, 16.58)]))
    assert len(found) == clips
    assert [stretch.reason for stretch in left] == ([] if clips else [TOO_LONG])


def test_a_formula_in_a_text_is_none_in_the_account_and_is_read_back(tmp_path):
    texts = ['=HYPERLINK("http://x")', "- Sim, disse.", "Nothing of it.", "'=1"]
    rows = [Stretch(8_000 * i, 8_000 * (i + 1), t) for i, t in enumerate(texts)]
    tape = SimpleNamespace(name="@tape", rate=16_000)
    result: Any = SimpleNamespace(recordings=[SimpleNamespace(recording=tape, rows=rows)])
    write_account(tmp_path, result)
    written = (tmp_path / "account.csv").read_bytes()
    with (tmp_path / "account.csv").open(newline="", encoding="utf-8") as file:
        cells = [cell for row in csv.DictReader(file) for cell in row.values()]
    assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for cell in cells)
    assert [(row["recording"], row["text"]) for row in read_csv(written)] == [
        ("@tape", text) for text in texts
    ]
    assert [row["start"] for row in read_csv(written)][:2] == ["0.000000", "0.500000"]
