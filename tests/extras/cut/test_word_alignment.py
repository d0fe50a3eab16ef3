"""Recognised words against a text with gaps on both sides, and which of them are trusted."""

import random

import numpy as np
import pytest

from extras.cut.cues import Cue
from extras.cut.manuscript import manuscript_of
from extras.cut.recogniser import HeardWord
from extras.cut.word_alignment import (
    DoubtfulSentence,
    TextFollower,
    WordMatch,
    doubtful_sentences,
    match_words,
    place_units,
    trusted_matches,
)

TEXT = manuscript_of([Cue("The king promised half.")], "en")
# `the` was spoken by another person, six seconds before the rest.
HEARD = [
    HeardWord("the", 1.0, 1.2),
    HeardWord("come", 1.2, 1.6),
    HeardWord("king", 7.2, 7.5),
    HeardWord("promised", 7.5, 8.0),
    HeardWord("half", 8.0, 8.4),
]
PLACES = {0: 0, 1: 2, 2: 3, 3: 4}


def numbers(text: str) -> np.ndarray:
    return np.array([ord(letter) for letter in text])


def test_text_that_is_not_spoken_and_speech_that_is_not_written_are_passed_over():
    pairs = match_words(numbers("xxabcyydef"), numbers("abcZZZZZZdefgg"))
    assert pairs == [(0, 2), (1, 3), (2, 4), (9, 7), (10, 8), (11, 9)]


def heard(words: list[str]) -> list[HeardWord]:
    return [HeardWord(word, place, place + 1) for place, word in enumerate(words)]


def followed(words: list[str], said: list[str], at_once: int) -> TextFollower:
    follower = TextFollower(words)
    for start in range(0, len(said), at_once):
        follower.add(heard(said[start : start + at_once]))
    follower.finish()
    return follower


def test_a_long_text_is_followed_over_insertions_and_losses():
    generator = random.Random(1)
    words = [f"w{generator.randrange(400)}" for _ in range(5000)]
    said, truth = list[str](), list[tuple[int, int]]()
    for place, word in enumerate(words):
        if 2000 <= place < 2060:  # a page that is not read aloud
            continue
        if generator.random() < 0.02:
            said += ["other"] * 5
        if generator.random() < 0.03:
            said.append("mistake")
            continue
        truth.append((place, len(said)))
        said.append(word)
    found = set(followed(words, said, 17).matches)
    assert len(found & set(truth)) > 0.99 * len(truth)
    assert len(found - set(truth)) < 0.01 * len(truth)


def test_a_reader_who_begins_in_the_middle_is_found_and_another_text_is_not():
    words = [f"w{place}" for place in range(6000)]
    found = followed(words, words[4000:5000], 1000)
    assert [word for word, _ in found.matches] == list(range(4000, 5000))
    other = followed(words[:1000], [f"x{place}" for place in range(1000)], 1000)
    assert other.is_lost and other.matches == []


def placed(starts: list[float], certainty: float) -> list[str]:
    checked = {
        number: HeardWord(word, start, start + 0.3, certainty)
        for number, (word, start) in enumerate(zip(TEXT.words, starts))
    }
    return [unit.text for unit in place_units(TEXT, PLACES, HEARD, checked)]


def test_a_heard_word_is_sure_where_it_was_heard_only():
    assert placed([1.0, 1.3, 1.6, 2.0], certainty=-6.0) == ["The"]
    assert placed([1.0, 7.2, 7.6, 8.1], certainty=-6.0) == "The king promised half.".split()


@pytest.mark.parametrize(("certainty", "sure"), [(-1.3, 4), (-1.5, 1)])
def test_elsewhere_it_must_be_certain(certainty, sure):
    assert len(placed([1.0, 1.3, 1.6, 2.0], certainty)) == sure


@pytest.mark.parametrize(
    ("said", "certainty", "others", "sure"),
    [
        ("The train was full that evening.", -1.9, -0.5, 6),
        ("The train was full that evening.", -2.1, -0.5, 5),
        ("The train was full that evening.", -1.9, -1.5, 0),
        ("The train was full.", -1.9, -0.5, 3),  # three say less about the fourth than five
    ],
)
def test_a_single_doubtful_word_among_sure_ones_is_believed_more_easily(said, certainty, others, sure):
    text = manuscript_of([Cue(said)], "en")
    checked = {
        number: HeardWord(word, number / 2, number / 2 + 0.4, certainty if number == 3 else others)
        for number, word in enumerate(text.words)
    }
    assert len(place_units(text, {}, [], checked)) == sure


@pytest.mark.parametrize(("seconds", "looked_at"), [(25.0, True), (35.0, False)])
def test_what_is_spread_over_half_a_minute_is_no_sentence(seconds, looked_at):
    """Its words come from other speech and match by chance; aligning them would take too long."""
    text = manuscript_of([Cue("The king sang.")], "en")
    heard = [
        HeardWord("the", 1.0, 1.2),
        HeardWord("king", 9.0, 9.5),
        HeardWord("sang", seconds, seconds + 0.3),
        HeardWord("a", seconds + 0.3, seconds + 0.4),
    ]
    in_part, with_a_fragment = {0: 0, 2: 2}, {0: 0, 1: 1, 2: 2}
    for places in (in_part, with_a_fragment):
        assert bool(doubtful_sentences(text, places, heard, 100.0)) is looked_at


def test_matches_are_trusted_in_a_row_or_as_a_whole_sentence():
    text = manuscript_of([Cue("Good night. The king of Spain sang.")], "en")
    heard = [HeardWord(word, number, number + 1.0) for number, word in enumerate("abcdefghij")]
    whole, two, three = ((0, 0), (1, 1)), ((3, 7), (4, 8)), ((3, 7), (4, 8), (5, 9))
    for pairs, words in ((whole, {0, 1}), (two, set()), (three, {3, 4, 5}), (whole[:1], set())):
        matches = [WordMatch(*pair) for pair in pairs]
        assert trusted_matches(matches, heard, text).keys() == words


def test_a_word_that_is_heard_twice_belongs_beside_its_neighbours():
    """The first goes with the word after it, the last with the word before it."""
    text = manuscript_of([Cue("The king sang. The end.")], "en")
    words = "the old the king sang cow the end end".split()
    heard = [HeardWord(word, number, number + 1.0) for number, word in enumerate(words)]
    matches = [WordMatch(*pair) for pair in ((0, 0), (1, 3), (2, 4), (3, 6), (4, 8))]
    assert trusted_matches(matches, heard, text) == {0: 2, 1: 3, 2: 4, 3: 6, 4: 7}


@pytest.mark.parametrize(
    ("before", "after", "region"),
    [
        ((0.9, 1.0), None, (0.8, 2.5)),
        (None, (2.4, 2.6), (0.9, 2.7)),
        (None, (2.5, 2.7), None),  # a pause between
        (None, (2.4, 2.9), None),  # a separate word
    ],
)
def test_a_fragment_at_the_edge_of_a_sentence_is_looked_at_again(before, after, region):
    text = manuscript_of([Cue("The king sang.")], "en")
    said = [("the", 1.0, 1.2), ("king", 1.2, 1.8), ("sang", 1.8, 2.4)]
    strange = [("a", *before)] if before else []
    heard = [HeardWord(*word) for word in [*strange, *said, *([("a", *after)] if after else [])]]
    places = {word: word + len(strange) for word in range(3)}
    found = doubtful_sentences(text, places, heard, 5.0)
    assert found == ([DoubtfulSentence(0, 2, *map(pytest.approx, region))] if region else [])
