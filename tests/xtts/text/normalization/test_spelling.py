"""Numbers: ICU's rules against num2words, an independent implementation."""

import pytest
from num2words import num2words

from benchmarks.text import plain
from xtts.text.normalization.numbers import spell
from xtts.text.normalization.registry import rules_of

NUMBERS = [
    *range(121),
    121,
    200,
    345,
    999,
    1000,
    1001,
    1100,
    1234,
    2000,
    5021,
    10_000,
    21_000,
    99_999,
    100_000,
    654_321,
    1_000_000,
]
# Both are right, but write it in different ways.
SAME = {
    "en": [(" and ", " "), ("thousand, ", "thousand ")],
    "de": [("einhundert", "hundert"), ("eintausend", "tausend")],
    "fr": [("vingt et un", "vingtetun")],
    "pt": [(" e ", " "), ("catorze", "quatorze")],
    "pl": [("jeden tysiąc", "tysiąc"), ("jeden milion", "milion")],
    "ru": [("одна тысяча", "тысяча"), ("один миллион", "миллион")],
    # Counting uses jedna; before a masculine noun it is jeden.
    "cs": [("jeden milion", "milion"), ("jedna", "jeden"), ("tisíce", "tisíc")],
    # num2words omits an i.
    "it": [("ventuno", "ventun"), ("centodicotto", "centodiciotto")],
    # num2words omits the apocope before mil.
    "es": [("veintiuno mil", "veintiún mil")],
    "nl": [("één", "een"), ("ë", "e")],
    "hu": [("egyezer", "ezer"), ("kettő", "két")],
}


def form(text: str, language: str) -> str:
    words = f" {plain(text, language)} "
    for variant, other in SAME.get(language, []):
        words = words.replace(variant, other)
    return words.replace(" ", "")


@pytest.mark.parametrize("language", ["en", "es", "fr", "de", "it", "pt", "pl", "tr", "ru", "nl", "cs", "hu"])
def test_icus_rules_and_num2words_agree(language):
    rules = rules_of(language)
    assert rules is not None
    different = {}
    for number in NUMBERS:
        ours = rules.number_words(str(number))
        num2words_form = num2words(number, lang="pt_BR" if language == "pt" else language)
        if form(ours, language) != form(num2words_form, language):
            different[number] = (ours, num2words_form)
    assert not different


def test_a_number_beyond_words_is_read_digit_by_digit():
    assert spell("en", 10**20, "cardinal").split()[:2] == ["one", "zero"]
    assert not any(map(str.isdigit, spell("hi", 10**24 - 1, "cardinal")))
