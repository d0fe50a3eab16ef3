"""The old pieces from which a new piece is initialised."""

import pytest
from tokenizers import Tokenizer

from extras.languages.spelling import OldSpelling, romanise
from tests.models import write_vocabulary
from xtts.voices.base_models import DEMO

CHARACTERS = "abcdefghijklmnopqrstuvwxyzêаеиньорт"


@pytest.fixture
def old(tmp_path) -> Tokenizer:
    write_vocabulary(tmp_path / "vocab.json", ("en", "ru"), CHARACTERS)
    return Tokenizer.from_file(str(tmp_path / "vocab.json"))


@pytest.mark.parametrize(
    ("piece", "spelled"),
    [
        ("ế", ["ê"]),
        ("ạ", ["a"]),
        ("і", ["и"]),
        ("є", ["и", "е"]),
        ("ні", ["н", "и"]),
        ("θ", ["th"]),
        ("ა", ["a"]),
        ("\u0301", []),
    ],
)
def test_a_piece_begins_as_its_plain_letter_its_like_in_the_script_or_latin_letters(old, piece, spelled):
    ids = OldSpelling(old, phones=False).ids(piece)
    assert [old.id_to_token(id_) for id_ in ids] == spelled


def test_where_letters_are_phones_a_piece_begins_as_its_phones():
    old = Tokenizer.from_file(str(DEMO / "vocab.json"))
    spelling = OldSpelling(old, phones=True)
    assert [old.id_to_token(id_) for id_ in spelling.ids("შა")] == ["S", "&"]
    assert romanise("შა") == "sha"
