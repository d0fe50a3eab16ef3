"""The figures of one seed."""

import pytest
import torch
from torch import Tensor

from benchmarks import judges, texts, voice


class Deaf:
    """A judge that recognises the wanted voice only in loud clips."""

    wanted = "slt"

    def name(self, clip: Tensor) -> str:
        return "slt" if clip.abs().max() > 0.5 else "awb"

    def similarity(self, clip: Tensor) -> float:
        return float(clip.abs().max())


class Loud:
    """A judge that rates a louder clip as more natural."""

    def mos(self, clip: Tensor) -> float:
        return 1 + 4 * float(clip.abs().max())


@pytest.mark.slow
def test_figures_of_a_seed(monkeypatch):
    monkeypatch.setattr(
        judges, "words_heard", lambda clip: "one two" if len(clip) > 9000 else "one"
    )
    monkeypatch.setattr(judges, "distance", lambda *pair: float(len(pair[0]) / 1000))
    spoken = [torch.ones(12_000), torch.zeros(8_000)]
    source = [torch.ones(10_000), torch.linspace(0, 9, 10_000).sin()]
    sentences = ["One two.", "One two."]
    found = voice.figures(spoken, source, sentences, Deaf(), Loud())  # type: ignore[arg-type]
    distortion = found.pop("distortion_db")
    assert distortion > 0
    assert found == {
        "word_errors": 0.25, "heard_as_wanted": 0.5, "similarity": 0.5, "distance": 10.0,
        "astray": 0, "naturalness": 3.0,
    }  # fmt: skip


def test_texts_that_are_cut_or_babble_are_counted():
    texts = ["One two three four."] * 4 + ["One two."]
    assert voice.astray(texts, [0.69, 0.71, 1.39, 1.41, 5.0]) == 2


def test_spread_of_one_value_is_none():
    assert voice.spread([2.0]) == {"mean": 2.0, "spread": 0.0}
    assert voice.spread([1.0, 3.0]) == {"mean": 2.0, "spread": 1.0}


def test_the_sentences_are_twenty_and_judge_texts_are_others():
    lines = texts.sentences("twenty")
    assert len(set(lines)) == 20
    assert not set(lines) & {*voice.JUDGE_TEXTS, voice.REFERENCE_TEXT}
