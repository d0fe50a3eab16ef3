"""Phrases whose readings were written before the rules, against the readings of our rules."""

import pytest

from benchmarks.text import FOLDER, Phrase, missed, ours, phrases
from xtts.text.normalization.registry import LANGUAGES

PHRASES = [*phrases(), *phrases(FOLDER / "mended")]


def test_there_are_three_hundred_phrases_in_seventeen_languages():
    assert len(PHRASES) >= 300 and {phrase.language for phrase in PHRASES} == set(LANGUAGES)
    assert len({phrase.kind for phrase in PHRASES}) >= 12


@pytest.mark.parametrize("phrase", PHRASES, ids=lambda phrase: f"{phrase.language}-{phrase.kind}")
def test_a_phrase_is_read_as_a_person_reads_it(phrase):
    reading = ours(phrase.written, phrase.language)
    assert phrase.is_read(reading), reading


@pytest.mark.parametrize(
    ("language", "written", "reading"),
    [
        ("en", "Pi is about 3.141.", "Pi is about three point one four one."),
        ("de", "Etwa 3.141 Menschen.", "Etwa dreitausendeinhunderteinundvierzig Menschen."),
        ("es", "Cuesta 1 £.", "Cuesta una libra."),
        ("es", "Cuesta 1,50 £.", "Cuesta una libra con cincuenta peniques."),
        ("es", "A las 21:30.", "A las veintiuna treinta."),
        ("pt", "Custa 1 £.", "Custa uma libra."),
        ("pl", "Mam 112 zł i 113 kg.", "Mam sto dwanaście złotych i sto trzynaście kilogramów."),
        ("pl", "Mam 122 zł.", "Mam sto dwadzieścia dwa złote."),
        ("en", "It closed in 2010.", "It closed in twenty ten."),
        ("en", "In 2019 it was back.", "In twenty nineteen it was back."),
        ("en", "In 2009 it closed.", "In two thousand and nine it closed."),
        ("en", "In 1066 they came.", "In ten sixty-six they came."),
        ("nl", "Op 5-3-1066.", "Op vijf maart duizendzesenzestig."),
        ("nl", "Op 5-3-1099.", "Op vijf maart duizendnegenennegentig."),
        ("nl", "Op 5-3-1100.", "Op vijf maart elfhonderd."),
        ("hi", "5-3-1066 को", "पाँच मार्च एक हज़ार छियासठ को"),
        ("nl", "Het was in 1100.", "Het was in elfhonderd."),
        ("hi", "वह 1066 में पैदा हुआ।", "वह एक हज़ार छियासठ में पैदा हुआ।"),
        ("hi", "वह 1100 में पैदा हुआ।", "वह ग्यारह सौ में पैदा हुआ।"),
        ("pl", "W 1999 roku wrócił.", "W tysiąc dziewięćset dziewięćdziesiątym dziewiątym roku wrócił."),
        ("pl", "We 2020 r. wrócił.", "We dwa tysiące dwudziestym roku wrócił."),
        ("ru", "В 1999 году он вернулся.", "В тысяча девятьсот девяносто девятом году он вернулся."),
        ("ru", "В 1999 г. он вернулся.", "В тысяча девятьсот девяносто девятом году он вернулся."),
        ("cs", "V roce 1999 se vrátil.", "V roce tisíc devět set devadesát devět se vrátil."),
    ],
)
def test_what_looks_alike_is_read_by_what_it_is(language, written, reading):
    """A point, a gender, the last two digits of a number, and each way to say a year."""
    phrase = Phrase(language, "", written, (reading,))
    assert phrase.is_read(ours(written, language)), ours(written, language)


@pytest.mark.parametrize(
    "folder", sorted(path for path in FOLDER.iterdir() if path.is_dir()), ids=lambda path: path.name
)
def test_nine_of_ten_phrases_that_nobody_had_seen_are_read_right(folder):
    unseen = list(phrases(folder))
    wrong = missed(ours, folder)
    told = "\n".join(f"{phrase.language} {phrase.written!r}: {reading!r}" for phrase, reading in wrong)
    assert len(wrong) <= 0.10 * len(unseen), told


@pytest.mark.parametrize(
    ("written", "reading"),
    [
        ("Le 7 juill. 2023.", "Le sept juillet deux mille vingt-trois."),
        ("Elle part le 7 juill. Nous restons.", "Elle part le sept juillet. Nous restons."),
    ],
)
def test_the_second_short_form_of_juillet_is_a_month(written, reading):
    assert ours(written, "fr") == reading.lower()
