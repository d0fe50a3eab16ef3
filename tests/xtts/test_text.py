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
