"""Heard words against a text with gaps on both sides."""

import random

import numpy as np

from train.cutting.alignment.following import TextFollower, matched
from train.cutting.alignment.recogniser import HeardWord


def numbers(text: str) -> np.ndarray:
    return np.array([ord(letter) for letter in text])


def test_text_that_is_not_spoken_and_speech_that_is_not_written_are_passed_over() -> None:
    pairs = matched(numbers("xxabcyydef"), numbers("abcZZZZZZdefgg"))
    assert pairs == [(2, 0), (3, 1), (4, 2), (7, 9), (8, 10), (9, 11)]


def heard(words: list[str]) -> list[HeardWord]:
    return [HeardWord(word, place, place + 1) for place, word in enumerate(words)]


def test_a_long_text_is_followed_over_insertions_and_losses() -> None:
    generator = random.Random(1)
    words = [f"w{generator.randrange(400)}" for _ in range(5000)]
    said, truth = list[str](), list[tuple[int, int]]()
    for place, word in enumerate(words):
        if 2000 <= place < 2060:  # a page that nobody reads
            continue
        if generator.random() < 0.02:
            said += ["other"] * 5
        if generator.random() < 0.03:
            said.append("mistake")
            continue
        truth.append((place, len(said)))
        said.append(word)
    follower = TextFollower(words)
    for start in range(0, len(said), 17):
        follower.add(heard(said[start : start + 17]))
    follower.finish()
    found = {(one.word, one.heard) for one in follower.matches}
    assert len(found & set(truth)) > 0.99 * len(truth)
    assert len(found - set(truth)) < 0.01 * len(truth)


def test_a_reader_who_begins_in_the_middle_is_found() -> None:
    words = [f"w{place}" for place in range(6000)]
    follower = TextFollower(words)
    follower.add(heard(words[4000:5000]))
    follower.finish()
    assert [one.word for one in follower.matches] == list(range(4000, 5000))


def test_speech_of_another_text_matches_nothing_to_speak_of() -> None:
    follower = TextFollower([f"w{place}" for place in range(1000)])
    follower.add(heard([f"x{place}" for place in range(1000)]))
    follower.finish()
    assert follower.lost
    assert follower.matches == []
