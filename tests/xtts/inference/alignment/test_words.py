"""The words of a text get their times, piece by piece."""

from dataclasses import replace

import numpy as np

from xtts.inference.alignment.guard import Ending
from xtts.inference.alignment.guarded_piece import SpokenPiece, SpokenWords, TimedWord, words_of_speech
from xtts.text.tokenizer import Piece
from xtts.text.written_words import WordSpan

WORDS = (WordSpan("$5", 2, 5), WordSpan("paid", 7, 9))
READ = Piece("", [1] * 10, words=WORDS)
TIMES = np.array([[i / 10, (i + 1) / 10] for i in range(12)])


def piece(times: np.ndarray | None = TIMES, seconds: float = 1.2) -> SpokenPiece:
    return SpokenPiece([1] * 10, Ending.GOOD, "", 1, False, True, 24, seconds, times)


def test_pauses_speed_and_later_pieces_move_words():
    read = [replace(READ, before=0.5, after=1.0), READ]
    words = words_of_speech(read, [piece(), piece()])
    assert words == [
        TimedWord("$5", 0.7, 1.1),
        TimedWord("paid", 1.2, 1.5),
        TimedWord("$5", 2.9, 3.3),
        TimedWord("paid", 3.4, 3.7),
    ]
    faster = words_of_speech([READ], [piece(seconds=0.6)], speed=2.0)
    assert faster == [TimedWord("$5", 0.1, 0.3), TimedWord("paid", 0.35, 0.5)]


def test_what_was_cut_off_is_over_with_the_sound():
    assert words_of_speech([READ], [piece(seconds=0.5)]) == [
        TimedWord("$5", 0.2, 0.5),
        TimedWord("paid", 0.5, 0.5),
    ]


def test_a_word_that_was_cut_off_ends_before_the_pause_behind_its_piece():
    assert words_of_speech([replace(READ, after=1.0)], [piece(seconds=0.5)]) == [
        TimedWord("$5", 0.2, 0.5),
        TimedWord("paid", 0.5, 0.5),
    ]


def test_a_word_of_two_pieces_is_told_once_with_the_second():
    read = [READ, replace(READ, words=(WordSpan("", 1, 3), WordSpan("now", 5, 6)))]
    words = SpokenWords(read)
    words.add_sound(1.2)
    assert words.end_piece(piece()) == [TimedWord("$5", 0.2, 0.6)]
    words.add_sound(1.2)
    assert words.end_piece(piece()) == [TimedWord("paid", 0.7, 1.6), TimedWord("now", 1.7, 1.9)]


def test_a_word_of_which_nothing_is_said_stands_between_its_neighbours():
    read = replace(READ, words=(WordSpan("a", 1, 4), WordSpan("(?)", 5, 4), WordSpan("b", 5, 9)))
    words = words_of_speech([read], [piece()])
    assert words == [TimedWord("a", 0.1, 0.5), TimedWord("(?)", 0.5, 0.5), TimedWord("b", 0.5, 1.0)]


def test_a_path_that_overlaps_gives_times_that_do_not():
    times = np.array([[0.0, 0.5]] * 6 + [[0.3, 0.9]] * 6)
    words = words_of_speech([READ], [piece(times=times)])
    assert words is not None
    assert words[0].end_time <= words[1].start_time <= words[1].end_time


def test_without_a_path_nothing_is_known():
    assert words_of_speech([READ, READ], [piece(), piece(times=None)]) is None
    assert words_of_speech([], []) is None
    assert len(TIMES) == len(READ.ids) + 2
