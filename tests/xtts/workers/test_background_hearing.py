"""Sentences are heard while the next ones are spoken, and each is told what was heard of it."""

import threading
from collections.abc import Sequence

import numpy as np
import pytest
import torch

from xtts.model.config import ModelConfig
from xtts.text.tokenizer import Tokenizer
from xtts.voices.base_models import DEMO
from xtts.workers.background_hearing import BackgroundHearing
from xtts.workers.file_evaluation import SentenceTask, SpokenFacts

SAID = SpokenFacts(codes=20, text_tokens=8, finished=True, seconds=1.0)
SOUND = torch.zeros(24_000)


class Slow:
    """Hears "one two" in every sentence, once it may."""

    def __init__(self) -> None:
        self.may = threading.Event()
        self.groups: list[int] = []

    def hear(self, waveforms: Sequence[np.ndarray]) -> list[str]:
        assert self.may.wait(20)
        assert all(len(wave) == 16_000 for wave in waveforms)
        self.groups.append(len(waveforms))
        return ["one two"] * len(waveforms)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer(ModelConfig.read(DEMO), DEMO)


def task(text: str) -> SentenceTask:
    return SentenceTask(text, "en", 0)


def test_speaking_goes_on_while_a_group_is_heard(tokenizer: Tokenizer) -> None:
    slow = Slow()
    with BackgroundHearing(slow, tokenizer) as hearing:
        hearing.begin([task("One two."), task("Three.")], [SOUND, None], [SAID, SAID])
        hearing.catch_up()  # of one group nothing need be over
        endless = SpokenFacts(codes=90, text_tokens=8, finished=False, seconds=9.0)
        hearing.begin([task("One."), task("Two.")], [SOUND, SOUND], [SAID, endless])
        assert slow.groups == []
        slow.may.set()
        hearing.catch_up()
        assert slow.groups[0] == 1
        told = hearing.told([SAID, SAID, SAID, endless])
    assert [one.heard for one in told] == ["one two", None, "one two", None]
    assert [one.word_errors for one in told] == [0.0, None, 1.0, None]
    assert slow.groups == [1, 1]


def test_without_a_recogniser_nothing_changes(tokenizer: Tokenizer) -> None:
    with BackgroundHearing(None, tokenizer) as hearing:
        hearing.begin([task("One.")], [SOUND], [SAID])
        hearing.catch_up()
        assert hearing.told([SAID]) == [SAID]


def test_what_a_recogniser_raises_is_raised(tokenizer: Tokenizer) -> None:
    class Broken:
        def hear(self, waveforms: Sequence[np.ndarray]) -> list[str]:
            raise MemoryError(len(waveforms))

    with pytest.raises(MemoryError), BackgroundHearing(Broken(), tokenizer) as hearing:
        hearing.begin([task("One.")], [SOUND], [SAID])
        hearing.told([SAID])
