"""Texts of a recording, plain or with times in four formats, and their words."""

import pytest

from extras.cut.manuscript import Cue, manuscript_of, read_cues
from extras.cut.recordings import CuttingError

TIMED = [Cue("Good morning.", 1.5, 3.25), Cue("How are you?", 4.0, 5.5)]
SRT = (
    "1\r\n00:00:01,500 --> 00:00:03,250\r\n<i>Good</i>\r\nmorning.\r\n\r\n"
    "2\r\n00:00:04,000 --> 00:00:05,500\r\nHow are you?\r\n"
)
VTT = (
    "WEBVTT\n\nNOTE nothing\n\n00:01.500 --> 00:03.250 align:start\nGood morning.\n\n"
    "00:00:04.000 --> 00:00:05.500\nHow are you?\n"
)
HTK = "0 15000000 sil\n15000000 32500000 Good morning.\n40000000 55000000 How are you?\n"
AUDACITY = "1.5\t3.25\tGood morning.\n4.0\t5.5\tHow are you?\n"
GRID = """File type = "ooTextFile"
item []:
    item [1]:
        class = "IntervalTier"
        name = "words"
        intervals [1]:
            xmin = 0
            xmax = 2
            text = "wrong"
    item [2]:
        class = "IntervalTier"
        name = "sentences"
        intervals [1]:
            xmin = 0
            xmax = 1.5
            text = ""
        intervals [2]:
            xmin = 1.5
            xmax = 3.25
            text = "Good morning."
        intervals [3]:
            xmin = 4.0
            xmax = 5.5
            text = "How are you?"
"""


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.srt", SRT), ("a.vtt", VTT), ("a.lab", HTK), ("b.lab", AUDACITY), ("a.TextGrid", GRID)],
)
def test_timed_texts_say_what_is_said_when(tmp_path, name, content):
    (tmp_path / name).write_text(content, newline="")
    assert read_cues(tmp_path / name) == TIMED
    # The cues of a plain text are its paragraphs.
    (tmp_path / "a.txt").write_bytes("Good\nmorning.\n\nHow are you?\n".encode("utf-16"))
    assert read_cues(tmp_path / "a.txt") == [Cue(cue.text) for cue in TIMED]


@pytest.mark.parametrize(
    ("cues", "language", "sentences"),
    [
        (
            [Cue("今日は晴れです。「本当？」と聞いた。散歩に行こう！")], "ja",
            ("今日は晴れです。", "「本当？」と聞いた。", "散歩に行こう！"),
        ),
        ([Cue("Good. Morning.", 0.0, 1.0), Cue("Olá", 2.0, 3.0)], "pt", ("Good. Morning.", "Olá")),
        (
            [Cue('"Where are you?" she asked. (He slept.) “Yes!”) «Non.» It ended.')], "en",
            ('"Where are you?"', "she asked.", "(He slept.)", "“Yes!”)", "«Non.»", "It ended."),
        ),
    ],
    ids=["without spaces", "cues", "closing quotes"],
)  # fmt: skip
def test_where_sentences_end(cues, language, sentences):
    text = manuscript_of(cues, language)
    assert text.sentences == sentences and text.is_timed is (len(cues) > 1)
    words = [unit.sentence for unit in text.units]
    assert words == sorted(words) and set(words) == set(range(len(sentences)))


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.txt", None, "does not exist"),
        ("a.docx", b"x", "is not a supported text file"),
        ("a.txt", b" \n", "contains no words"),
        ("a.txt", b"caf\xe9", "line 1: byte 0xe9"),
        ("a.srt", b"Good morning.", "Is it a subtitle file"),
        ("a.lab", b"Good morning to you", "line 1"),
        ("a.vtt", b"00:05.000 --> 00:03.000\nNo.", "ends at 3 s, before 5 s"),
        ("a.TextGrid", b"words", "lacks an IntervalTier"),
    ],
)
def test_what_cannot_be_read_is_told(tmp_path, name, content, told):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(CuttingError, match=told):
        read_cues(tmp_path / name)


def test_units_carry_the_words_that_are_said():
    text = manuscript_of([Cue("He paid $5 to Dr. Smith, I think. Really?")], "en")
    assert list(text.words[:3]) == ["he", "paid", "five"]
    said = {unit.text: text.words[unit.first_word : unit.last_word + 1] for unit in text.units}
    assert said["$5"] == ("five", "dollars")
    assert said["Really?"] == ("really",)
    assert [unit.ends for unit in text.units if unit.ends] == [2, 1, 2, 3]


def test_units_together_are_the_text_and_all_of_its_words():
    written = "On 3 May 1999 — a well-known day — it rained for 12 hours. “Nobody” came."
    text = manuscript_of([Cue(written)], "en")
    assert " ".join(unit.text for unit in text.units) == written
    words = [word for unit in text.units for word in range(unit.first_word, unit.last_word + 1)]
    assert words == list(range(len(text.words)))
    assert all(word.isalpha() or "'" in word for word in text.words)
