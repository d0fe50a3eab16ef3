"""The sentences of a text, and its spoken words."""

import pytest

from extras.cut.cues import Cue
from extras.cut.manuscript import manuscript_of


@pytest.mark.parametrize(
    ("cues", "language", "sentences"),
    [
        (
            [Cue("今日は晴れです。「本当？」と聞いた。散歩に行こう！")],
            "ja",
            ("今日は晴れです。", "「本当？」と聞いた。", "散歩に行こう！"),
        ),
        ([Cue("Good. Morning.", 0.0, 1.0), Cue("Olá", 2.0, 3.0)], "pt", ("Good. Morning.", "Olá")),
        (
            [Cue('"Where are you?" she asked. (He slept.) “Yes!”) «Non.» It ended.')],
            "en",
            ('"Where are you?"', "she asked.", "(He slept.)", "“Yes!”)", "«Non.»", "It ended."),
        ),
    ],
    ids=["without spaces", "cues", "closing quotes"],
)
def test_where_sentences_end(cues, language, sentences):
    text = manuscript_of(cues, language)
    assert text.sentences == sentences and text.is_timed is (len(cues) > 1)
    words = [unit.sentence for unit in text.units]
    assert words == sorted(words) and set(words) == set(range(len(sentences)))


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
