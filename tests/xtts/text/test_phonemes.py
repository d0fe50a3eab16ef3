"""English to phones: the dictionary, endings, compounds, rules, and unchanged text."""

import pytest

from xtts.text.pronunciations import PAUSES, PHONES, is_known, to_phones

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
