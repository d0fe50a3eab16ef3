"""Steps in their order, and chunks that are heard ahead."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from train.cutting import listening
from train.cutting.alignment.manuscript import manuscript_of
from train.cutting.alignment.recogniser import HeardWord
from train.cutting.alignment.text_files import Cue
from train.cutting.journal import HeardJournal
from train.cutting.listening import SpokenChunk, TextListener
from train.cutting.sound import SourceRecording
from train.cutting.workers.steps import OwnSteps, in_order

NUM_WORDS, WORDS_A_CHUNK = 4000, 40


class AheadSteps:
    """Computes at once what is begun, as workers do."""

    def __init__(self, ahead: int) -> None:
        self.ahead = ahead
        self.num_begun = 0

    def begin(self, step: Callable[..., Any], *arguments: object) -> Callable[[], Any]:
        self.num_begun += 1
        found = step(*arguments)
        return lambda: found

    def close(self) -> None:
        pass


def test_results_come_in_their_order_and_so_many_are_begun_ahead() -> None:
    begun = list[int]()

    def steps() -> Any:
        for number in range(6):
            begun.append(number)
            yield lambda number=number: number

    found = in_order(steps(), 2)
    assert next(found) == 0 and begun == [0, 1, 2]
    assert [*found] == [1, 2, 3, 4, 5]


def test_what_is_heard_ahead_with_another_expectation_is_heard_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [f"w{number}" for number in range(NUM_WORDS)]
    monkeypatch.setattr(listening, "text_recogniser", lambda: None)

    def heard(expected: list[str], samples: np.ndarray, start: float) -> list[HeardWord]:
        # Depends on what is expected: its first word is among what is heard.
        first = int(samples[0])
        said = [*words[first : first + WORDS_A_CHUNK], expected[0]]
        return [HeardWord(word, start + number, start + number + 1)
                for number, word in enumerate(said)]  # fmt: skip

    monkeypatch.setattr(listening, "heard_words", heard)

    def listened(steps: Any, name: str) -> tuple[list[HeardWord], bytes]:
        text = manuscript_of([Cue(" ".join(words) + ".")], "en")
        journal = HeardJournal(tmp_path / name, "a fingerprint")
        listener = TextListener(text, journal, steps)
        tape = SourceRecording("tape", tmp_path / "tape.wav", 16_000, 16_000, (0, 0))
        for place in range(NUM_WORDS // WORDS_A_CHUNK):
            samples = np.array([place * WORDS_A_CHUNK], np.float32)
            listener.hear(tape, SpokenChunk(100.0 * place, samples))
        listener.finish()
        journal.close()
        return listener.heard, (tmp_path / name).read_bytes()

    ahead = AheadSteps(4)
    expected = listened(OwnSteps(), "own")
    assert listened(ahead, "ahead") == expected
    assert len({word.text for word in expected[0]} & {"w0"}) == 1
    # The expectation moved on, and what had been begun by then was begun again.
    assert ahead.num_begun > NUM_WORDS // WORDS_A_CHUNK
    # All of it is known: nothing is begun.
    again = AheadSteps(4)
    assert listened(again, "ahead") == expected and again.num_begun == 0
