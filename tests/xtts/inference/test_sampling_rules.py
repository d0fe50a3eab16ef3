"""Drawing a code from logits: the same rules with torch (`xtts.inference.decoding`) and with numpy
(`xtts.onnx.speech.sampling`), in one set of tests for both."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pytest
import torch

from machine.devices.cuda_errors import NotFinite
from xtts.inference import decoding
from xtts.inference.decoding import DecodingError
from xtts.model.config import SamplingParams
from xtts.onnx.speech import sampling

RULES = (
    SamplingParams(), SamplingParams(top_k=3), SamplingParams(top_p=0.3, temperature=0.2),
    SamplingParams(top_k=0, top_p=1.0), SamplingParams(top_k=500, top_p=0.99, temperature=2.0),
    SamplingParams(repetition_penalty=1.0),
)  # fmt: skip
EXACT = {"repetition_penalty": 1.0, "temperature": 1.0}


class Rules(Protocol):
    refusal: type[Exception]

    def penalised(
        self, logits: Sequence[float], seen: Sequence[bool], penalty: float
    ) -> list[float]: ...
    def kept(self, logits: Sequence[float], params: SamplingParams) -> list[bool]: ...
    def drawn(
        self, logits: Sequence[float], seen: Sequence[bool], params: SamplingParams,
        seed: int, count: int,
    ) -> list[int]: ...  # fmt: skip


class Torch:
    refusal: type[Exception] = DecodingError

    def penalised(
        self, logits: Sequence[float], seen: Sequence[bool], penalty: float
    ) -> list[float]:
        found = decoding.repetition_penalty(torch.tensor(logits), torch.tensor(seen), penalty)
        return list(found.tolist())

    def kept(self, logits: Sequence[float], params: SamplingParams) -> list[bool]:
        return list(torch.isfinite(decoding.top_k_top_p(torch.tensor(logits), params)).tolist())

    def drawn(
        self, logits: Sequence[float], seen: Sequence[bool], params: SamplingParams,
        seed: int, count: int,
    ) -> list[int]:  # fmt: skip
        generator = torch.Generator().manual_seed(seed)
        given, said = torch.tensor(logits), torch.tensor(seen)
        return [int(decoding.sample(given, said, params, generator)) for _ in range(count)]


class Numpy:
    refusal: type[Exception] = NotFinite

    def penalised(
        self, logits: Sequence[float], seen: Sequence[bool], penalty: float
    ) -> list[float]:
        given = np.array(logits, np.float32)
        return list(sampling.repetition_penalty(given, np.array(seen), penalty).tolist())

    def kept(self, logits: Sequence[float], params: SamplingParams) -> list[bool]:
        found = sampling.top_k_top_p(np.array(logits, np.float32), params)
        return list(np.isfinite(found).tolist())

    def drawn(
        self, logits: Sequence[float], seen: Sequence[bool], params: SamplingParams,
        seed: int, count: int,
    ) -> list[int]:  # fmt: skip
        random = np.random.default_rng(seed)
        given, said = np.array(logits, np.float32), np.array(seen)
        return [sampling.sample(given, said, params, random) for _ in range(count)]


@pytest.fixture(params=[Torch, Numpy], ids=["torch", "numpy"])
def rules(request: pytest.FixtureRequest) -> Rules:
    found: Rules = request.param()
    return found


def test_greedy_takes_the_likeliest_after_the_penalty(rules: Rules) -> None:
    greedy = SamplingParams(greedy=True)
    assert rules.drawn([0.0, 3.0, 2.9, 1.0], [False] * 4, greedy, 0, 1) == [1]
    assert rules.drawn([1.0, 3.0, 2.9], [False, True, False], greedy, 0, 1) == [2]
    assert rules.drawn([-9.0, -1.0, -1.1], [False, True, False], greedy, 0, 1) == [2]


def test_a_said_code_gets_less_likely_on_either_side_of_zero(rules: Rules) -> None:
    found = rules.penalised([2.0, -2.0, 2.0, -2.0], [True, True, False, False], 4.0)
    assert found == [0.5, -8.0, 2.0, -2.0]


def test_top_k_keeps_k(rules: Rules) -> None:
    kept = rules.kept([1.0, 4.0, 3.0, 2.0], SamplingParams(top_k=2, top_p=1.0))
    assert kept == [False, True, True, False]


def test_top_p_keeps_the_smallest_set_that_holds_p(rules: Rules) -> None:
    logits = [float(np.log(chance)) for chance in (0.5, 0.3, 0.15, 0.05)]
    params = SamplingParams(temperature=1.0, top_k=0, top_p=0.7)
    assert rules.kept(logits, params) == [True, True, False, False]


def test_top_p_of_almost_nothing_keeps_the_best(rules: Rules) -> None:
    kept = rules.kept([0.0, 9.0, 0.0], SamplingParams(top_k=0, top_p=1e-6))
    assert kept == [False, True, False]


def test_draws_follow_the_chances(rules: Rules) -> None:
    logits = [float(np.log(chance)) for chance in (0.5, 0.3, 0.15, 0.05)]
    params = SamplingParams(top_k=3, top_p=1.0, **EXACT)
    drawn = rules.drawn(logits, [False] * 4, params, 1, 4000)
    shares = np.bincount(drawn, minlength=4) / len(drawn)
    assert np.abs(shares - np.array([0.5, 0.3, 0.15, 0.0]) / 0.95).max() < 0.03


def test_a_seed_draws_the_same_again(rules: Rules) -> None:
    logits = [float(value) for value in np.random.default_rng(0).standard_normal(50)]
    first, again, other = (
        rules.drawn(logits, [False] * 50, SamplingParams(), seed, 20) for seed in (7, 7, 8)
    )
    assert first == again != other


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_logits_that_are_not_finite_are_refused_before_drawing(rules: Rules, wrong: float) -> None:
    with pytest.raises(rules.refusal, match="not a number"):
        rules.drawn([0.0, wrong, 1.0], [False] * 3, SamplingParams(), 0, 1)


@pytest.mark.parametrize("params", RULES, ids=str)
def test_both_may_draw_the_same_codes_with_the_same_chances(params: SamplingParams) -> None:
    random = np.random.default_rng(0)
    for _ in range(20):
        logits = (3 * random.standard_normal(120)).astype(np.float32)
        seen = random.random(120) < 0.2
        ours = sampling.repetition_penalty(logits, seen, params.repetition_penalty)
        theirs = decoding.repetition_penalty(
            torch.from_numpy(logits), torch.from_numpy(seen), params.repetition_penalty
        )
        assert np.array_equal(ours, theirs.numpy())
        ours, theirs = sampling.top_k_top_p(ours, params), decoding.top_k_top_p(theirs, params)
        assert np.array_equal(np.isfinite(ours), np.isfinite(theirs.numpy()))
        assert np.abs(sampling.softmax(ours) - theirs.softmax(-1).numpy()).max() < 1e-6


def test_rows_together_draw_what_each_draws_alone() -> None:
    """As a GPU does it: one launch for all rows, each with its own rules and its own generator."""
    draw = torch.Generator().manual_seed(3)
    rules = [*RULES, SamplingParams(greedy=True)]
    logits = 4 * torch.randn(len(rules), 1026, generator=draw)
    seen = torch.rand(len(rules), 1026, generator=draw) < 0.3
    for turn in range(20):
        alone = [
            decoding.sample(row, said, rule, torch.Generator().manual_seed(turn))
            for row, said, rule in zip(logits, seen, rules, strict=True)
        ]
        together = decoding.sample_rows(
            logits, seen, rules, [torch.Generator().manual_seed(turn) for _ in rules]
        )
        assert together.equal(torch.cat(alone))
        # The penalty works the other way round below zero, where most likely codes are.
        logits = logits.roll(7, -1) - 1


def test_a_row_that_is_not_finite_has_no_code_and_costs_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A GPU is not waited for; drawing from NaN there would kill the context."""
    logits, seen = torch.randn(3, 66), torch.zeros(3, 66, dtype=torch.bool)
    logits[1, 5] = torch.nan
    generators = [torch.Generator().manual_seed(0) for _ in range(3)]
    first, bad, last = decoding.sample_rows(logits, seen, [RULES[0]] * 3, generators).tolist()
    assert bad == decoding.NO_CODE and min(first, last) >= 0
    monkeypatch.setattr(decoding, "waits_for_nothing", lambda _: False)
    for row, infinite in ((logits[1], torch.nan), (logits[0], torch.inf)):
        row[0] = infinite
        code = decoding.sample(row, seen[0], RULES[0], torch.Generator())
        assert code.tolist() == [decoding.NO_CODE]
