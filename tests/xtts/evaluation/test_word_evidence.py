"""Likelihoods of spoken codes under several texts, against the GPT run one position at a time."""

import pytest
import torch
from torch.nn import functional as F

from demo_voice.new_gpt import new_gpt
from tests.xtts.model.test_gpt import SHAPE
from xtts.evaluation.word_evidence import log_likelihoods
from xtts.model.gpt import GPT
from xtts.model.shapes import NUM_LATENTS

TEXTS = ([3, 4, 5, 6, 7, 8, 9], [3], [11, 12, 13])
CODES = torch.tensor([5, 60, 7, 7, 33])


@pytest.fixture(scope="module")
def gpt() -> GPT:
    """Random weights, larger than usual, so that different texts give different likelihoods."""
    model = new_gpt(SHAPE, 3).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(4)
    return model


def one_by_one(gpt: GPT, latents: torch.Tensor, text: list[int], stopped: bool) -> float:
    """The log-likelihood of the codes, one at a time, without padding or a batch."""
    row = gpt.prefix(latents, torch.tensor(text))
    total = 0.0
    targets = [*CODES.tolist(), *([SHAPE.audio_stop] if stopped else [])]
    for position, (before, code) in enumerate(
        zip([SHAPE.audio_start, *CODES.tolist()], targets, strict=False)
    ):
        row = torch.cat((row, gpt.audio_input(torch.tensor([before]), position)), dim=1)
        logits = gpt.mel_head(gpt.final_norm(gpt.gpt(row))[0, -1])
        total += float(F.log_softmax(logits.float(), -1)[code])
    return total


@pytest.mark.parametrize("stopped", [True, False])
@torch.inference_mode()
def test_texts_of_other_lengths_beside_it_change_nothing(gpt, stopped):
    latents = torch.randn(1, NUM_LATENTS, SHAPE.width, generator=torch.Generator().manual_seed(1))
    together = log_likelihoods(gpt, latents, TEXTS, CODES, stopped=stopped)
    alone = [one_by_one(gpt, latents, text, stopped) for text in TEXTS]
    assert [float(evidence) for evidence in together] == pytest.approx(alone, rel=1e-4)
    assert len({round(evidence, 2) for evidence in alone}) == len(TEXTS)
