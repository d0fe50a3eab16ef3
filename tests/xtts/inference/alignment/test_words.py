"""Words get their times, and subtitles their form."""

import json

import numpy as np
import pytest

from xtts.inference.alignment.guard import Ending
from xtts.inference.alignment.guarded_piece import SpokenPiece
from xtts.inference.alignment.words import TimedWord, timed_words, written
from xtts.text.tokenizer import WordSpan

SPANS = [WordSpan("h@lo", 2, 5), WordSpan("wRld", 7, 9)]
TIMES = np.array([[i / 10, (i + 1) / 10] for i in range(12)])


def piece(times=TIMES, seconds=1.2):
    return SpokenPiece([1] * 10, Ending.GOOD, "", 1, False, True, 24, seconds, times)


def test_words_begin_with_their_first_token_and_end_with_their_last():
    found = timed_words([piece(), piece()], [SPANS, SPANS])
    assert found == [
        TimedWord("h@lo", 0.2, 0.6), TimedWord("wRld", 0.7, 1.0),
        TimedWord("h@lo", 1.4, 1.8), TimedWord("wRld", 1.9, 2.2),
    ]  # fmt: skip


def test_speed_spelling_and_an_end_that_was_cut():
    found = timed_words([piece(seconds=0.4)], [SPANS], ["hello", "world"], speed=2.0)
    assert found == [TimedWord("hello", 0.1, 0.3), TimedWord("world", 0.35, 0.4)]
    assert timed_words([piece()], [SPANS], ["only one"])[0].word == "h@lo"
    assert timed_words([piece(times=None)], [SPANS]) is None


@pytest.mark.parametrize(("form", "mark"), [("srt", ","), ("vtt", ".")])
def test_subtitles(form, mark):
    words = [TimedWord(f"word{i}", i * 0.5, i * 0.5 + 0.4) for i in range(8)]
    words.append(TimedWord("later", 3_661.0, 3_661.5))
    found = written(words, form)
    # Seven words have 41 characters, and 42 are the most.
    assert f"00:00:00{mark}000 --> 00:00:03{mark}400\nword0" in found and "\nword7\n" in found
    assert f"01:01:01{mark}000 --> 01:01:01{mark}500\nlater\n" in found
    assert found.startswith("1\n00:00:00,000" if form == "srt" else "WEBVTT\n\n00:00:00.000")
    assert all(len(line) <= 42 for line in found.splitlines() if "word" in line)


def test_json_has_the_names_of_captioned_speech():
    found = json.loads(written([TimedWord("é", 0.1, 0.2)], "json"))
    assert found == [{"word": "é", "start_time": 0.1, "end_time": 0.2}]
