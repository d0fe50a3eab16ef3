"""Where a sentence ends: dates, titles, streets, initials and ordinals are never cut."""

import pytest

from xtts.text.normalization.registry import sentence_ends
from xtts.text.sentence_words import NEVER_LAST, OFTEN_LAST, SOMETIMES_LAST
from xtts.text.sentences import words_of
from xtts.text.splitting import Limits, cut


@pytest.mark.parametrize(
    ("language", "parts"),
    [
        ("en", ["It closes at 9 p.m.", "Then we leave."]),
        ("en", ["The U.S. Senate met.", "He met J.R.R. Tolkien on Elm St.", "Then no. 5 burned."]),
        ("en", ["Dr. Smith and Mrs. Hall came at 9 p.m. Monday.", "On Jan. 5 he left the U.S.", "The end."]),
        ("en", ["It was 1990.", "It is 5 min.", "Then we go."]),
        ("de", ["Am 29. Juli 2026 war es.", "Er wurde 29.", "Danach ging er."]),
        ("de", ["Obst, z. B. Die Birne, usw.", "Danach fahren wir.", "Im 19. Jh. und in Abb. 3."]),
        ("pl", ["Na ul. Długiej 5.", "Było to w 2005 r.", "Potem nic.", "Na 3. piętrze."]),
        ("cs", ["Dne 5. března 2024.", "Viz č. 5 a str. 12."]),
        ("ru", ["Ул. Ленина, д. 5, и т. д.", "Он ушёл."]),
        ("es", ["A las 9:05 h.", "Luego vino el Sr. García."]),
        ("", ["Ask Prof. Moore, Sgt. Pepper, and see Abb. 3 in ul. Długa.", "Yes."]),
    ],
)
def test_a_text_is_cut_at_its_sentences(language, parts):
    sentences = sentence_ends(language).parts(" ".join(parts))
    assert [sentence.strip() for sentence in sentences] == parts


def test_a_stream_waits_for_the_word_that_decides():
    ends = sentence_ends("")
    assert list(ends.places("I met Mrs. ", is_complete=False)) == []
    assert list(ends.places("We ate etc. The", is_complete=False)) == []
    assert list(ends.places("We ate etc. The man", is_complete=False)) == [11]
    assert list(ends.places("It rained. ", is_complete=False)) == [10]


def test_a_long_sentence_keeps_dates_titles_and_amounts_together():
    limits = Limits(40, 40, sentences=sentence_ends("de"))
    pieces = cut("und so weiter " * 2 + "am 29. Juli 2026 kam Dr. Smith für 10 USD " + "wieder " * 6, limits)
    for together in ("29. Juli 2026", "Dr. Smith", "10 USD"):
        assert any(together in piece for piece in pieces), pieces


def test_an_abbreviation_stands_in_one_table():
    for language in ("*", *NEVER_LAST):
        never = {*words_of(NEVER_LAST, language), *words_of(NEVER_LAST, "*")}
        often, sometimes = words_of(OFTEN_LAST, language), words_of(SOMETIMES_LAST, language)
        plain = [word.removesuffix("#") for word in sometimes]
        assert not never & {*often, *plain} and not set(often) & set(plain), language
