"""The words of a text, and which written text they belong to."""

from train.cutting.alignment.manuscript import manuscript_of
from train.cutting.alignment.text_files import Cue


def test_units_carry_the_words_that_are_said() -> None:
    text = manuscript_of([Cue("He paid $5 to Dr. Smith, I think. Really?")], "en")
    assert list(text.words[:3]) == ["he", "paid", "five"]
    said = {unit.text: text.words[unit.first_word : unit.last_word + 1] for unit in text.units}
    assert said["$5"] == ("five", "dollars")
    assert said["Really?"] == ("really",)
    assert [unit.ends for unit in text.units if unit.ends] == [2, 1, 2, 3]


def test_units_together_are_the_text_and_all_of_its_words() -> None:
    written = "On 3 May 1999 — a well-known day — it rained for 12 hours. “Nobody” came."
    text = manuscript_of([Cue(written)], "en")
    assert " ".join(unit.text for unit in text.units) == written
    assert [word for unit in text.units for word in range(unit.first_word, unit.last_word + 1)] == (
        list(range(len(text.words)))
    )
    assert all(
        text.words[word].isalpha() or "'" in text.words[word] for word in range(len(text.words))
    )


def test_sentences_of_timed_texts_are_its_cues() -> None:
    text = manuscript_of([Cue("Good. Morning.", 0.0, 1.0), Cue("Olá", 2.0, 3.0)], "pt")
    assert text.is_timed
    assert text.sentences == ("Good. Morning.", "Olá")
    assert text.words_of_sentence == (range(2), range(2, 3))


def test_chinese_and_japanese_sentences_end_without_a_space() -> None:
    text = manuscript_of([Cue("今日は晴れです。「本当？」と聞いた。散歩に行こう！")], "ja")
    assert text.sentences == ("今日は晴れです。", "「本当？」と聞いた。", "散歩に行こう！")
    assert [unit.sentence for unit in text.units] == [0, 1, 2]


def test_closing_quotes_stay_with_their_sentence() -> None:
    written = '"Where are you?" she asked. (He slept.) “Yes!”) «Non.» It ended.'
    text = manuscript_of([Cue(written)], "en")
    assert text.sentences[:2] == ('"Where are you?"', "she asked.")
    assert " ".join(text.sentences) == " ".join(unit.text for unit in text.units) == written
