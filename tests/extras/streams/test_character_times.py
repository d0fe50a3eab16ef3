"""The times of characters from those of words."""

import pytest

from extras.streams.character_times import CharacterTimes

WORDS = [("Well", 0.1, 0.5), ("done", 0.7, 0.9)]


def rows(text: str, *batches: list[tuple[str, float, float]], seconds: float) -> list[tuple[str, int, int]]:
    times = CharacterTimes(text)
    found = [*(times.add(batch) for batch in batches), times.end(seconds)]
    return [
        row
        for one in found
        if one is not None
        for row in zip(one.characters, one.starts, one.durations, strict=True)
    ]


@pytest.mark.parametrize("batches", [(WORDS,), (WORDS[:1], WORDS[1:]), (WORDS[:1], [], WORDS[1:])])
def test_spaces_take_the_time_between_words_and_signs_none(batches):
    found = rows('"Well, (done)!', *batches, seconds=1.25)
    assert [sign for sign, _, _ in found] == list('"Well, (done)! ')
    starts = {sign: start for sign, start, _ in reversed(found)}
    assert (starts['"'], starts["W"], starts[","], starts["("], starts["d"]) == (100, 100, 500, 700, 700)
    ends = [start + duration for _, start, duration in found]
    assert ends == sorted(ends) and ends[-1] == 1250
    assert [(start, duration) for sign, start, duration in found if sign == " "] == [(500, 200), (900, 350)]


def test_the_characters_of_a_word_share_its_time():
    found = rows("done", [("done", 0.2, 0.6)], seconds=0.6)
    assert found == [("d", 200, 100), ("o", 300, 100), ("n", 400, 100), ("e", 500, 100), (" ", 600, 0)]


def test_a_sign_inside_a_word_takes_the_time_there():
    found = rows("well-known", [("well", 0.0, 0.4), ("known", 0.5, 1.0)], seconds=1.0)
    assert ("-", 400, 100) in found


def test_a_word_that_is_written_otherwise_keeps_the_others_in_time():
    found = rows("It is 5 now.", [("It", 0.0, 0.1), ("five", 0.3, 0.6), ("now", 0.7, 0.9)], seconds=1.0)
    assert "".join(sign for sign, _, _ in found) == "It is 5 now. "
    assert found[8] == ("n", 700, 66)


def test_without_times_there_is_no_alignment():
    assert rows("Well done.", [], seconds=1.0) == []
