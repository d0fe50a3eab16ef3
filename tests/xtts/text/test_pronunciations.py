"""Pronunciation lists in words or in phones, and the phones of English words."""

from pathlib import Path

import pytest

from xtts.text.errors import TextError
from xtts.text.normalization.registry import NEWEST
from xtts.text.pronunciations import PAUSES, PHONES, check_entry, is_known, to_phones
from xtts.text.reading import replacer
from xtts.text.tokenizer import Tokenizer, TokenizerSpec
from xtts.voices.base_models import DEMO

ALPHABET = set(PHONES.values()) | set(PAUSES) | {" "}


@pytest.mark.parametrize(
    ("text", "phones"),
    [
        ("the kitchen", "D@ kIC@n"),
        ("don't", "dont"),
        ("hello, you!", "h@lo, ju!"),
        ("well-known (really)", "wEl non,rIli,"),
        ("caf\u00e9", "k@fe"),
    ],
)
def test_words_of_the_dictionary(text, phones):
    assert to_phones(text) == phones


@pytest.mark.parametrize(
    ("word", "stem", "ending"),
    [
        ("breadkitchen", "bread", "kIC@n"),
        ("umbrella's", "umbrella", "z"),
        ("pillowed", "pillow", "d"),
        ("twittering", "twitter", "IN"),
        ("kitchenless", "kitchen", "l@s"),
    ],
)
def test_a_known_word_with_an_ending_or_another_known_word(word, stem, ending):
    assert not is_known(word)
    assert to_phones(word) == to_phones(stem) + ending


@pytest.mark.parametrize("word", ["zorblaxity", "qwrt", "x", "sotaque", "hjsdkf", "blave"])
def test_any_word_is_spoken_somehow(word):
    phones = to_phones(word)
    assert phones and set(phones) <= ALPHABET


def test_each_phone_has_its_own_character():
    assert len(set(PHONES.values())) == len(PHONES)
    assert all(len(character) == 1 for character in PHONES.values())


def test_another_alphabet_stays_and_so_is_reported():
    assert to_phones("da \u043c") == f"{to_phones('da')} \u043c"


LIST = """\
# What nobody guesses.
Nginx = engine x
SQL server = sequel server
SQL = ess queue ell
Sotaque = /S OW0 T AA1 K IY0/
[pt]
Nginx = êngine
"""


def reading(folder: Path, *lists: str) -> Tokenizer:
    paths = []
    for number, content in enumerate(lists):
        paths.append(folder / f"{number}.txt")
        paths[-1].write_text(content, encoding="utf-8")
    return TokenizerSpec(DEMO, NEWEST, tuple(paths)).open()


def test_words_are_said_as_the_list_says_and_phones_are_the_models_letters(tmp_path):
    tokenizer = reading(tmp_path, LIST)
    assert tokenizer.show("NGINX and the SQL Server, SQL; not nginxes.", "en") == [
        "engine x and the sequel server, ess queue ell; not nginxes."
    ]
    (piece,) = tokenizer.split("This is sotaque.", "en")
    assert piece.text == f"{to_phones('this is')} sotAki."
    assert tokenizer.show("This is Sotaque.", "en") == ["this is sotaque."]


def test_a_voices_own_list_wins_over_the_one_for_all(tmp_path):
    tokenizer = reading(tmp_path, LIST, "nginx = enjinx")
    assert tokenizer.show("Nginx, SQL", "en") == ["enjinx, ess queue ell"]


def test_transcripts_are_learned_as_they_are_written(tmp_path):
    plain, listed = reading(tmp_path), reading(tmp_path, LIST)
    assert plain.encode("nginx", "en") == listed.encode("nginx", "en")
    assert plain.fingerprint == listed.fingerprint


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("nginx engine x", "write WORD = PRONUNCIATION"),
        ("nginx =", "write WORD = PRONUNCIATION"),
        ("... = dots", "neither letters nor digits"),
        ("a = /S XX/", "'XX' is not a phone of the CMU dictionary"),
        ("a = " + "b" * 90, "at most 80 characters"),
    ],
)
def test_a_list_that_cannot_be_used_is_refused_with_its_line(tmp_path, line, told):
    with pytest.raises(TextError, match=r"0\.txt, line 2") as refused:
        reading(tmp_path, "# first\n" + line)
    assert told in str(refused.value)


@pytest.mark.parametrize("end", ["\n", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029"])
def test_an_entry_of_several_lines_is_refused(end):
    for word, spoken in ((f"one{end}two", "three"), ("one", f"two{end}three = four")):
        with pytest.raises(TextError, match="has a line break"):
            check_entry(word, spoken)
    check_entry("one two", "three")


def test_phones_are_refused_where_the_model_reads_letters(base_folder, tmp_path):
    (tmp_path / "list.txt").write_text("a = /S OW/", encoding="utf-8")
    with pytest.raises(TextError, match="this voice reads letters"):
        TokenizerSpec(base_folder, NEWEST, (tmp_path / "list.txt",)).open()


SIGNS = (("№", "номер"), ("₴", "гривень"), ("км", "кілометрів"), ("км/год", "кілометрів за годину"))


@pytest.mark.parametrize(
    ("text", "replaced"),
    [
        ("№5", "номер 5"),
        ("20₴.", "20 гривень."),
        ("5км, 5 КМ", "5 кілометрів, 5 кілометрів"),
        ("90 км/год", "90 кілометрів за годину"),
        ("кмін і скм", "кмін і скм"),
    ],
)
def test_whole_entries_are_replaced_and_stand_apart(text, replaced):
    assert replacer(SIGNS)(text) == replaced


def test_no_entry_changes_nothing():
    assert replacer(())("20 ₴") == "20 ₴"
