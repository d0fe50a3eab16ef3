"""Sampling a code from logits: one set of tests for torch (`xtts.inference.torch_backend`) and for
every extra that samples codes (`sampling_rules.WAYS` of its tests)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from tests.installed import tables
from xtts.inference import torch_backend
from xtts.inference.defaults import SamplingParams

RULES = (
    SamplingParams(),
    SamplingParams(top_k=3),
    SamplingParams(top_p=0.3, temperature=0.2),
    SamplingParams(top_k=0, top_p=1.0),
    SamplingParams(top_k=500, top_p=0.99, temperature=2.0),
    SamplingParams(repetition_penalty=1.0),
)
EXACT = {"repetition_penalty": 1.0, "temperature": 1.0}


Logits = Sequence[float]


class Torch:
    def penalised(self, logits: Logits, seen: Sequence[bool], penalty: float) -> list[float]:
        params = SamplingParams(repetition_penalty=penalty)
        given, repeated = torch.tensor([logits]), torch.tensor([seen])
        return list(torch_backend.sampling_probabilities(given, repeated, [params])[0][0].tolist())

    def kept(self, logits: Logits, params: SamplingParams) -> list[bool]:
        given = torch.tensor([logits])
        _, chances = torch_backend.sampling_probabilities(
            given, torch.zeros_like(given, dtype=torch.bool), [params]
        )
        return list((chances[0] > 0).tolist())

    def drawn(
        self, logits: Logits, seen: Sequence[bool], params: SamplingParams, seed: int, count: int
    ) -> list[int]:
        generator = torch.Generator().manual_seed(seed)
        given, repeated = torch.tensor([logits]), torch.tensor([seen])
        return [int(torch_backend.sample(given, repeated, [params], [generator])) for _ in range(count)]


WAYS = [Torch, *(way for table in tables("sampling_rules") for way in table.WAYS)]


@pytest.fixture(params=WAYS, ids=lambda way: way.__name__.lower())
def rules(request: pytest.FixtureRequest) -> Any:
    return request.param()


def test_greedy_takes_the_likeliest_after_the_penalty(rules):
    greedy = SamplingParams(greedy=True)
    assert rules.drawn([0.0, 3.0, 2.9, 1.0], [False] * 4, greedy, 0, 1) == [1]
    assert rules.drawn([1.0, 3.0, 2.9], [False, True, False], greedy, 0, 1) == [2]
    assert rules.drawn([-9.0, -1.0, -1.1], [False, True, False], greedy, 0, 1) == [2]


def test_a_said_code_gets_less_likely_on_either_side_of_zero(rules):
    penalised = rules.penalised([2.0, -2.0, 2.0, -2.0], [True, True, False, False], 4.0)
    assert penalised == [0.5, -8.0, 2.0, -2.0]


def test_top_k_keeps_k(rules):
    allowed = rules.kept([1.0, 4.0, 3.0, 2.0], SamplingParams(top_k=2, top_p=1.0))
    assert allowed == [False, True, True, False]


def test_top_p_keeps_the_smallest_set_that_holds_p(rules):
    logits = [float(np.log(chance)) for chance in (0.5, 0.3, 0.15, 0.05)]
    params = SamplingParams(temperature=1.0, top_k=0, top_p=0.7)
    assert rules.kept(logits, params) == [True, True, False, False]


def test_top_p_of_almost_nothing_keeps_the_best(rules):
    allowed = rules.kept([0.0, 9.0, 0.0], SamplingParams(top_k=0, top_p=1e-6))
    assert allowed == [False, True, False]


def test_draws_follow_the_chances(rules):
    logits = [float(np.log(chance)) for chance in (0.5, 0.3, 0.15, 0.05)]
    params = SamplingParams(top_k=3, top_p=1.0, **EXACT)
    drawn = rules.drawn(logits, [False] * 4, params, 1, 4000)
    shares = np.bincount(drawn, minlength=4) / len(drawn)
    assert np.abs(shares - np.array([0.5, 0.3, 0.15, 0.0]) / 0.95).max() < 0.03


def test_a_seed_draws_the_same_again(rules):
    logits = [float(value) for value in np.random.default_rng(0).standard_normal(50)]
    first, again, other = (
        rules.drawn(logits, [False] * 50, SamplingParams(), seed, 20) for seed in (7, 7, 8)
    )
    assert first == again != other


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_from_logits_that_are_not_finite_nothing_is_drawn(wrong):
    """The row gets no code and the others are not affected; the GPU is not waited for."""
    logits, seen = torch.randn(3, 66), torch.zeros(3, 66, dtype=torch.bool)
    logits[1, 5] = wrong
    generators = [torch.Generator().manual_seed(0) for _ in range(3)]
    first, bad, last = torch_backend.sample(logits, seen, [RULES[0]] * 3, generators).tolist()
    assert bad == torch_backend.NO_CODE and min(first, last) >= 0


def test_rows_together_draw_what_each_draws_alone():
    """One launch for all rows, each with separate rules and a separate generator."""
    draw = torch.Generator().manual_seed(3)
    rules = [*RULES, SamplingParams(greedy=True)]
    logits = 4 * torch.randn(len(rules), 1026, generator=draw)
    seen = torch.rand(len(rules), 1026, generator=draw) < 0.3
    for turn in range(20):
        draws = [torch.Generator().manual_seed(turn) for _ in rules]
        alone = [
            torch_backend.sample(logits[row : row + 1], seen[row : row + 1], [rule], [draws[row]])
            for row, rule in enumerate(rules)
        ]
        together = torch_backend.sample(
            logits, seen, rules, [torch.Generator().manual_seed(turn) for _ in rules]
        )
        assert together.equal(torch.cat(alone))
        # Below zero, where most likely codes are, the penalty multiplies instead of dividing.
        logits = logits.roll(7, -1) - 1
