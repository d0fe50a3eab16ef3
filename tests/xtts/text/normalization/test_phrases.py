"""Phrases whose readings were written before the rules: what ours says of them."""

import re

import pytest

from benchmarks.phrases import FOLDER, Phrase, missed, phrases
from benchmarks.text import ours
from xtts.text.normalization.registry import LANGUAGES

PHRASES = list(phrases())


def test_there_are_three_hundred_phrases_in_seventeen_languages() -> None:
    assert len(PHRASES) >= 300 and {phrase.language for phrase in PHRASES} == set(LANGUAGES)
    assert len({phrase.kind for phrase in PHRASES}) >= 12


def test_ninety_five_of_a_hundred_phrases_are_read_as_a_person_reads_them() -> None:
    wrong = missed(ours)
    told = "\n".join(f"{one.language} {one.written!r}: {said!r}" for one, said in wrong)
    assert len(wrong) <= 0.05 * len(PHRASES), told


@pytest.mark.parametrize("folder", sorted(path for path in FOLDER.iterdir() if path.is_dir()))
def test_nine_of_ten_phrases_that_nobody_had_seen_are_read_right(folder) -> None:
    unseen = list(phrases(folder))
    wrong = missed(ours, folder)
    told = "\n".join(f"{one.language} {one.written!r}: {said!r}" for one, said in wrong)
    assert len(wrong) <= 0.10 * len(unseen), told


@pytest.mark.parametrize("phrase", PHRASES, ids=lambda phrase: f"{phrase.language}-{phrase.kind}")
def test_no_digit_is_left(phrase: Phrase) -> None:
    assert not re.search(r"\d", ours(phrase.written, phrase.language))
