"""The files with the times of words."""

import json

import pytest

from xtts.inference.alignment.guarded_piece import TimedWord
from xtts.subtitles import render


@pytest.mark.parametrize(("form", "mark"), [("srt", ","), ("vtt", ".")])
def test_subtitles(form, mark):
    words = [TimedWord(f"word{i}", i * 0.5, i * 0.5 + 0.4) for i in range(8)]
    words.append(TimedWord("later", 3_661.0, 3_661.5))
    subtitles = render(words, form)
    # Seven words have 41 characters; the limit is 42.
    assert f"00:00:00{mark}000 --> 00:00:03{mark}400\nword0" in subtitles and "\nword7\n" in subtitles
    assert f"01:01:01{mark}000 --> 01:01:01{mark}500\nlater\n" in subtitles
    assert subtitles.startswith("1\n00:00:00,000" if form == "srt" else "WEBVTT\n\n00:00:00.000")
    assert all(len(line) <= 42 for line in subtitles.splitlines() if "word" in line)


@pytest.mark.parametrize(
    ("text", "words", "shown"),
    [
        ('He said: "No" – then, left.', "He said No then left", 'He said: "No" – then, left.'),
        ("¿Sí?  (Ja)\nyes…", "Sí Ja yes", "¿Sí? (Ja) yes…"),
        ("你好，world「三」。", "你 好 world 三", "你好，world「三」。"),
        # The middle word is written in another way.
        ("One, ﬁve, a (six).", "One five a six", "One, five a (six)."),
        ("a --> b, c", "a b c", "a → b, c"),
        ("", "One two", "One two"),
    ],
)
def test_a_subtitle_has_the_punctuation_of_the_text(text, words, shown):
    timed = [TimedWord(word, 0.1 * n, 0.1 * n + 0.1) for n, word in enumerate(words.split())]
    for form in ("srt", "vtt"):
        assert render(timed, form, text).splitlines()[-1] == shown
    assert '"word": "' + words.split()[0] + '"' in render(timed, "json", text)


def test_webvtt_escapes_what_would_be_a_tag():
    timed = [TimedWord("R&D", 0.0, 0.2), TimedWord("x", 0.2, 0.3)]
    assert render(timed, "vtt", "R&D <x>").splitlines()[-1] == "R&amp;D &lt;x&gt;"
    assert render(timed, "srt", "R&D <x>").splitlines()[-1] == "R&D <x>"


@pytest.mark.parametrize(("pause", "cues"), [(0.5, 1), (0.7, 2)])
def test_a_pause_ends_a_subtitle(pause, cues):
    """A subtitle does not stand over silence."""
    words = [TimedWord("Yes.", 0.0, 0.4), TimedWord("No.", 0.4 + pause, 1.4)]
    assert render(words, "srt").count(" --> ") == cues


def test_a_subtitle_stands_for_six_seconds_at_most():
    words = [TimedWord("so", second, second + 0.9) for second in range(8)]
    subtitles = render(words, "srt")
    assert subtitles.count(" --> ") == 2 and "00:00:00,000 --> 00:00:05,900" in subtitles


def test_json_has_the_names_of_captioned_speech():
    subtitles = json.loads(render([TimedWord("é", 0.1, 0.2)], "json"))
    assert subtitles == [{"word": "é", "start_time": 0.1, "end_time": 0.2}]
