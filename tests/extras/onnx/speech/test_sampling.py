"""Sampling a code from logits with numpy, against torch."""

import numpy as np
import pytest
import torch

from extras.onnx.speech import sampling
from machine.devices.cuda_errors import NotFinite
from tests.xtts.inference.test_sampling_rules import RULES
from xtts.inference import torch_backend


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_from_logits_that_are_not_finite_nothing_is_drawn(wrong):
    logits = np.random.default_rng(0).standard_normal(66).astype(np.float32)
    logits[5] = wrong
    with pytest.raises(NotFinite, match="not finite"):
        sampling.sample(logits, np.zeros(66, bool), RULES[0], np.random.default_rng(0))


@pytest.mark.parametrize("codes", [120, 1_026], ids=["few", "as of XTTS-v2"])
@pytest.mark.parametrize("params", RULES, ids=str)
def test_both_may_draw_the_same_codes_with_the_same_chances(params, codes):
    """numpy sorts a short array whole where it should only be partitioned."""
    random = np.random.default_rng(0)
    for _ in range(20):
        logits = (3 * random.standard_normal(codes)).astype(np.float32)
        seen = random.random(codes) < 0.2
        ours = sampling.repetition_penalty(logits, seen, params.repetition_penalty)
        torchs, chances = torch_backend.sampling_probabilities(
            torch.from_numpy(logits)[None], torch.from_numpy(seen)[None], [params]
        )
        assert np.array_equal(ours, torchs[0].numpy())
        ours = sampling.softmax(sampling.top_k_top_p(ours, params))
        assert np.array_equal(ours > 0, chances[0].numpy() > 0)
        assert np.abs(ours - chances[0].numpy()).max() < 1e-6
