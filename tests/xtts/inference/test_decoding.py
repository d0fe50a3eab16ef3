"""How the next code is chosen."""

import pytest
import torch

from xtts.inference.decoding import DecodingError, repetition_penalty, sample, top_k_top_p
from xtts.model.shapes import SamplingParams

NOTHING_SEEN = torch.zeros(4, dtype=torch.bool)


def chosen(logits: list[float], seed: int = 0, **rules) -> int:
    decoding = SamplingParams(**{"repetition_penalty": 1.0, **rules})
    generator = torch.Generator().manual_seed(seed)
    return int(sample(torch.tensor(logits), NOTHING_SEEN, decoding, generator))


def test_greedy_takes_the_best():
    assert chosen([0.0, 3.0, 2.9, 1.0], greedy=True) == 1


def test_a_said_code_gets_less_likely_on_either_side_of_zero():
    logits = torch.tensor([2.0, -2.0, 2.0, -2.0])
    seen = torch.tensor([True, True, False, False])
    assert repetition_penalty(logits, seen, 4.0).tolist() == [0.5, -8.0, 2.0, -2.0]


def test_top_k_keeps_k():
    kept = top_k_top_p(torch.tensor([1.0, 4.0, 3.0, 2.0]), SamplingParams(top_k=2, top_p=1.0))
    assert torch.isfinite(kept).tolist() == [False, True, True, False]


def test_top_p_keeps_the_smallest_set_that_holds_p():
    logits = torch.tensor([0.5, 0.3, 0.15, 0.05]).log()
    kept = top_k_top_p(logits, SamplingParams(temperature=1.0, top_k=0, top_p=0.7))
    assert torch.isfinite(kept).tolist() == [True, True, False, False]


def test_top_p_of_almost_nothing_keeps_the_best():
    kept = top_k_top_p(torch.tensor([0.0, 9.0, 0.0]), SamplingParams(top_k=0, top_p=1e-6))
    assert torch.isfinite(kept).tolist() == [False, True, False]


def test_the_same_seed_draws_the_same_code():
    draws = [[chosen([0.0, 0.1, 0.2, 0.3], seed) for _ in range(3)] for seed in range(20)]
    assert all(len(set(draw)) == 1 for draw in draws)
    assert len({draw[0] for draw in draws}) > 1


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_logits_that_are_no_numbers_are_refused_before_drawing(bad):
    with pytest.raises(DecodingError, match="not a number"):
        chosen([0.0, bad, 1.0, 2.0])
