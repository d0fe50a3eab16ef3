"""The rules of drawing, against torch's."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from machine.devices.cuda_errors import NotFinite
from xtts.inference import decoding as torchs
from xtts.model.shapes import SamplingParams
from xtts.onnx.speech import sampling

RULES = (
    SamplingParams(), SamplingParams(top_k=3), SamplingParams(top_p=0.3, temperature=0.2),
    SamplingParams(top_k=0, top_p=1.0), SamplingParams(top_k=500, top_p=0.99, temperature=2.0),
    SamplingParams(repetition_penalty=1.0),
)  # fmt: skip


@pytest.mark.parametrize("rules", RULES, ids=str)
def test_what_may_be_drawn_is_what_torch_may_draw(rules: SamplingParams) -> None:
    random = np.random.default_rng(0)
    for _ in range(20):
        logits = (3 * random.standard_normal(120)).astype(np.float32)
        seen = random.random(120) < 0.2
        ours = sampling.repetition_penalty(logits, seen, rules.repetition_penalty)
        theirs = torchs.repetition_penalty(
            torch.from_numpy(logits), torch.from_numpy(seen), rules.repetition_penalty
        )
        assert np.array_equal(ours, theirs.numpy())
        ours, theirs = sampling.top_k_top_p(ours, rules), torchs.top_k_top_p(theirs, rules)
        assert np.array_equal(np.isfinite(ours), np.isfinite(theirs.numpy()))
        chances = theirs.softmax(-1).numpy()
        assert np.abs(sampling.softmax(ours) - chances).max() < 1e-6


def test_draws_follow_the_chances() -> None:
    logits = np.log(np.array([0.5, 0.3, 0.15, 0.05], np.float32))
    rules = SamplingParams(temperature=1.0, top_k=3, top_p=1.0, repetition_penalty=1.0)
    random = np.random.default_rng(1)
    drawn = [sampling.sample(logits, np.zeros(4, bool), rules, random) for _ in range(4000)]
    shares = np.bincount(drawn, minlength=4) / len(drawn)
    assert np.abs(shares - np.array([0.5, 0.3, 0.15, 0.0]) / 0.95).max() < 0.03


def test_a_seed_draws_the_same_again() -> None:
    logits = np.random.default_rng(0).standard_normal(50).astype(np.float32)

    def drawn(seed: int) -> list[int]:
        random = np.random.default_rng(seed)
        seen = np.zeros(50, bool)
        return [sampling.sample(logits, seen, SamplingParams(), random) for _ in range(20)]

    assert drawn(7) == drawn(7) != drawn(8)


def test_greedy_is_the_likeliest_after_the_penalty() -> None:
    logits = np.array([1.0, 3.0, 2.9], np.float32)
    seen = np.array([False, True, False])
    rules = replace(SamplingParams(), greedy=True)
    assert sampling.sample(logits, seen, rules, np.random.default_rng()) == 2


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_told(wrong: float) -> None:
    logits = np.array([0.0, wrong], np.float32)
    with pytest.raises(NotFinite, match="not a number"):
        sampling.sample(logits, np.zeros(2, bool), SamplingParams(), np.random.default_rng())
