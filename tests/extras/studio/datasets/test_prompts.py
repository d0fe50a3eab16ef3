"""Sentences to read aloud: built-in ones in each language, and the user's text."""

import pytest

from api.errors import APIError
from extras.studio.datasets.prompts import MAX_CHARACTERS, MAX_IDEOGRAPHS, built_in_sentences, prompts_from
from xtts.text.languages import ENGLISH_NAMES


@pytest.mark.parametrize("language", ENGLISH_NAMES)
def test_each_language_has_sentences_that_can_be_clips(language):
    texts = built_in_sentences(language)
    assert len(texts) >= (60 if language == "en" else 30)
    assert len(set(texts)) == len(texts)
    most = MAX_IDEOGRAPHS if language in ("zh", "ja", "ko") else MAX_CHARACTERS
    for text in texts:
        assert text == " ".join(text.split()) and "|" not in text
        assert most / 8 <= len(text) <= most, text
        assert text[-1] in ".?!。？！।؟" and not any(character.isdigit() for character in text), text


def test_a_language_without_a_set_has_none():
    assert built_in_sentences("xx") == () and built_in_sentences("../en") == ()
    assert built_in_sentences("en-gb") == built_in_sentences("en")


def test_a_text_is_divided_into_its_sentences():
    text = 'One sentence here. Is it "true?" Yes!\n\nA new | paragraph\nand a line'
    assert prompts_from(text, "en") == (
        "One sentence here.",
        'Is it "true?"',
        "Yes!",
        "A new , paragraph",
        "and a line",
    )
    assert prompts_from("今天很好。明天呢？好。", "zh") == ("今天很好。", "明天呢？", "好。")


def test_a_long_sentence_is_cut_at_its_marks():
    pieces = prompts_from("a word, " * 60, "en")
    assert len(pieces) > 3 and all(len(piece) <= MAX_CHARACTERS for piece in pieces)
    assert "".join(pieces).replace(" ", "") == "aword," * 60


def test_what_cannot_be_read_is_refused():
    with pytest.raises(APIError, match="no word"):
        prompts_from(" … \n—", "en")
    with pytest.raises(APIError, match="at most 1,000"):
        prompts_from("Yes. " * 1_001, "en")
