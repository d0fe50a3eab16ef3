"""Text to ids, and long text to pieces."""

import pytest

from xtts.config import ModelConfig
from xtts.text import TextError, Tokenizer, cleaned


@pytest.fixture(scope="module")
def tokenizer(base_folder):
    return Tokenizer(ModelConfig.read(base_folder), base_folder)


def test_a_text_has_ids_behind_its_language(tokenizer):
    ids = tokenizer.encode("hello there", "en")
    assert ids == tokenizer.encode("  Hello\tthere ", "en-us")
    assert ids[0] != tokenizer.encode("hello there", "pt")[0]
    assert ids[1:] == tokenizer.encode("hello there", "pt")[1:]


def test_unknown_pieces_are_named(tokenizer):
    assert tokenizer.unknown("hello", "en") == []
    assert tokenizer.unknown("hello ж", "en") == ["ж"]


def test_an_unknown_language_names_the_known(tokenizer):
    with pytest.raises(TextError, match="en, pt"):
        tokenizer.encode("hello", "xx")


@pytest.mark.parametrize("text", ["", "   ", "...!?", "\u200b\u200e", "🙂", "\x07"])
def test_nothing_to_speak_is_told(text):
    with pytest.raises(TextError, match="nothing to speak"):
        cleaned(text)


def test_control_and_zero_width_characters_go():
    assert cleaned("a\u200bb\x00c\n d") == "abc d"
    assert cleaned("e\u0301") == "é"


def test_short_text_is_one_piece(tokenizer):
    assert tokenizer.split("One, two. Three!", "en") == ["One, two. Three!"]


def test_long_text_is_cut_at_sentences_and_every_piece_fits(tokenizer):
    sentence = "this is a sentence of some length, with a clause in it. "
    pieces = tokenizer.split(sentence * 40, "en")
    assert len(pieces) > 1
    assert all(piece.endswith(".") for piece in pieces)
    assert all(len(tokenizer.encode(piece, "en")) <= tokenizer.max_tokens for piece in pieces)
    assert " ".join(pieces).split() == (sentence * 40).split()


def test_a_sentence_without_a_full_stop_is_cut_at_clauses_then_spaces(tokenizer):
    clauses = tokenizer.split("some words in a clause, " * 60, "en")
    assert all(piece.endswith(",") for piece in clauses[:-1])
    words = tokenizer.split("words " * 300, "en")
    assert " ".join(words).split() == ["words"] * 300


def test_a_number_is_not_cut_at_its_point(tokenizer):
    pieces = tokenizer.split("it costs 3.14 in all and nothing else at all here " * 30, "en")
    assert not [piece for piece in pieces if piece.startswith("14") or piece.endswith("3.")]


def test_a_word_longer_than_the_budget_is_cut_too(tokenizer):
    pieces = tokenizer.split("x" * 3000, "en")
    assert "".join(pieces) == "x" * 3000
    assert all(len(tokenizer.encode(piece, "en")) <= tokenizer.max_tokens for piece in pieces)


SAID = {
    "en": ("The river rose again, and nobody in the village was surprised. ", 250),
    "pt": ("O rio subiu outra vez, e ninguém na aldeia ficou surpreendido! ", 203),
    # No spaces, and sentence ends of their own; spoken as "pt" by this model, which has no Chinese.
    "pt-like-chinese": ("河水又涨了，村里没有人感到惊讶。真的吗？是的！", 203),
}


@pytest.mark.parametrize("name", SAID)
def test_nothing_over_a_limit_leaves_and_nothing_is_lost(tokenizer, name):
    """Tokens, and the characters of each language: 28 s is all that the model's codes hold."""
    sentence, most = SAID[name]
    language = name[:2]
    pieces = tokenizer.split(sentence * 60, language)
    assert len(pieces) > 5
    for piece in pieces:
        assert len(piece) <= most
        assert len(tokenizer.encode(piece, language)) <= tokenizer.max_tokens
        assert piece[-1] in ".!?。？！"
    assert "".join(pieces).replace(" ", "") == (sentence * 60).replace(" ", "")


def test_a_row_of_dots_in_a_long_text_is_no_reason_to_refuse_it(tokenizer):
    pieces = tokenizer.split("A sentence of some length, it is. ... -- * * * \n" * 60, "en")
    assert all(any(letter.isalpha() for letter in piece) for piece in pieces)
    assert "".join(pieces).count("sentence") == 60


def test_as_much_as_a_book_is_refused_before_anything_is_done_with_it(tokenizer):
    with pytest.raises(TextError, match=r"100,000 characters; at most 90,000"):
        tokenizer.split("a" * 100_000, "en")


def test_a_bidirectional_and_other_controls_in_the_middle_change_no_id(tokenizer):
    assert tokenizer.encode("he\x00llo\u202e there\ufeff", "en") == tokenizer.encode(
        "hello there", "en"
    )
    assert tokenizer.split("hello 🙂🎉 there", "en") == ["hello 🙂🎉 there"]
