"""Chunks recognised ahead of their turn, and speech in a different order from the text."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from extras.common.steps import Steps
from extras.cut import by_words
from extras.cut.by_words import TextListener, sentences_heard_once, wrong_order_advice
from extras.cut.cues import Cue
from extras.cut.journal import RecognitionJournal
from extras.cut.manuscript import Manuscript, manuscript_of
from extras.cut.profile import SpokenChunk
from extras.cut.recogniser import HeardWord
from extras.cut.recordings import SourceRecording
from machine.storage.checksums import FileStamp

NUM_WORDS, WORDS_A_CHUNK = 4000, 40
SENTENCES = (
    "The harbour was quiet today.",
    "Seven grey geese flew away.",
    "Nobody told the old baker.",
    "Yes.",
)


def text_of(*sentences: str) -> Manuscript:
    return manuscript_of([Cue(" ".join(sentences))], "en")


def heard_of(*sentences: str) -> list[HeardWord]:
    words = text_of(*sentences).words
    return [HeardWord(word, float(place), place + 0.5) for place, word in enumerate(words)]


class AheadSteps(Steps):
    """Computes each step as soon as it begins, as workers do."""

    def __init__(self, ahead: int) -> None:
        self.ahead = ahead
        self.num_begun = 0

    def begin(self, step: Callable[..., Any], *arguments: object) -> Callable[[], Any]:
        self.num_begun += 1
        found = step(*arguments)
        return lambda: found


@pytest.mark.slow
def test_what_is_heard_ahead_with_another_expectation_is_heard_again(tmp_path, monkeypatch):
    words = [f"w{number}" for number in range(NUM_WORDS)]
    monkeypatch.setattr(by_words, "text_recogniser", lambda: None)

    def heard(expected: list[str], samples: np.ndarray, start: float) -> list[HeardWord]:
        # The result depends on the expectation: it includes the first expected word.
        first = int(samples[0])
        said = [*words[first : first + WORDS_A_CHUNK], expected[0]]
        return [HeardWord(word, start + number, start + number + 1) for number, word in enumerate(said)]

    monkeypatch.setattr(by_words, "heard_words", heard)

    def listened(steps: Any, name: str) -> tuple[list[HeardWord], bytes]:
        text = manuscript_of([Cue(" ".join(words) + ".")], "en")
        journal = RecognitionJournal(tmp_path / name, "a fingerprint")
        listener = TextListener(text, journal, steps)
        tape = SourceRecording("tape", tmp_path / "tape.wav", 16_000, 16_000, FileStamp("", 0, 0))
        for place in range(NUM_WORDS // WORDS_A_CHUNK):
            samples = np.array([place * WORDS_A_CHUNK], np.float32)
            listener.hear(tape, SpokenChunk(100.0 * place, samples))
        listener.finish()
        journal.close()
        return listener.heard, (tmp_path / name).read_bytes()

    ahead = AheadSteps(4)
    expected = listened(Steps(), "own")
    assert listened(ahead, "ahead") == expected
    assert len({word.text for word in expected[0]} & {"w0"}) == 1
    # The expectation changed, so chunks begun before were begun again.
    assert ahead.num_begun > NUM_WORDS // WORDS_A_CHUNK
    # Everything is known: nothing is begun.
    again = AheadSteps(4)
    assert listened(again, "ahead") == expected and again.num_begun == 0


def test_another_order_is_a_cause_where_most_is_heard():
    text = text_of(*SENTENCES)
    sentences, two, three, short = SENTENCES
    assert wrong_order_advice(heard_of(sentences, two, three, short), text) == ""
    assert "sentence 3 before sentence 1." in wrong_order_advice(heard_of(three, sentences, two), text)
    assert "sentence 2 before sentence 1." in wrong_order_advice(heard_of(two, sentences), text)
    assert wrong_order_advice(heard_of("A foreign text."), text) == ""
    assert sentences_heard_once(heard_of(three, short, sentences), text) == [2, 0]
    # A sentence recognised twice says nothing about its place.
    assert sentences_heard_once(heard_of(two, sentences, two), text) == [0]
