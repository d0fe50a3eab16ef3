"""Our training steps against Coqui's `GPT` trained on the same batches: the same curve.

Coqui's mask is left out (it covers only the last row of a batch, at the wrong stride), dropout is
0, and both sides use torch's AdamW.
"""

from collections.abc import Iterator

import pytest
import torch

from tests.peers.coqui import SMALL, coqui_gpt, ours_from
from tests.peers.test_gpt import a_batch, coqui_losses, our_rows
from train.dataset.batches import Batch
from train.optim.optimizer import OptimizationConfig
from train.step import Learner, train_step
from xtts.model.gpt import GPT

RATE = 1e-3
BATCHES = 8


def batches() -> list[dict]:
    lengths = ([1.7, 0.6, 2.9], [2.2, 1.1], [0.8, 0.9, 1.0], [3.0])
    return [a_batch(SMALL, lengths[n % 4], seed=n) for n in range(BATCHES)]


def coquis_curve(coqui: torch.nn.Module, steps: int, rate: float = RATE) -> Iterator[tuple[float, float]]:
    """(text, audio) losses of plain fp32 training."""
    optimizer = torch.optim.AdamW(coqui.parameters(), lr=rate, betas=(0.9, 0.96), eps=1e-8, weight_decay=0.0)
    learned = batches()
    for step in range(steps):
        text, audio = coqui_losses(coqui, learned[step % BATCHES])
        (0.01 * text + audio).backward()
        torch.nn.utils.clip_grad_norm_(coqui.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        yield text.item(), audio.item()


def our_curve(gpt: GPT, steps: int, precision: str, rate: float = RATE) -> Iterator[tuple[float, float]]:
    """The same with the trainer's step and packed batches."""
    recipe = OptimizationConfig(
        learning_rate=rate, warmup_steps=1, weight_decay=0.0, gradient_clip=1.0, precision=precision, seed=0
    )
    learner = Learner(gpt, recipe)
    learned = [Batch(our_rows(batch, SMALL), (), 0.0) for batch in batches()]
    for step in range(steps):
        result = train_step(learner, learned[step % BATCHES])
        yield result.losses["text_loss"], result.losses["audio_loss"]


@pytest.mark.slow
def test_fifty_steps_follow_coquis_within_a_thousandth():
    coqui = coqui_gpt(SMALL).train()
    ours = ours_from(coqui, SMALL)
    pairs = list(zip(coquis_curve(coqui, 50), our_curve(ours, 50, "fp32"), strict=True))
    furthest = max(abs(a - b) for theirs, found in pairs for a, b in zip(theirs, found, strict=True))
    assert furthest < 1e-3, f"{furthest:.1e}"
    assert pairs[-1][1][1] < 0.8 * pairs[0][1][1], "neither of them learned"


@pytest.mark.slow
@pytest.mark.skipif(not torch.ops.mkldnn._is_mkldnn_bf16_supported(), reason="this CPU has no bf16 products")
def test_two_hundred_steps_in_bf16_end_within_one_percent_of_coquis():
    coqui = coqui_gpt(SMALL).train()
    ours = ours_from(coqui, SMALL)
    # At 1e-3 the model has learned these clips of noise by heart at the end, which magnifies every
    # difference (bf16 ended 1.9 % lower); a fine-tune's rate is 5e-6.
    theirs = [audio for _, audio in coquis_curve(coqui, 200, rate=3e-4)]
    found = [audio for _, audio in our_curve(ours, 200, "bf16", rate=3e-4)]
    last = sum(found[-BATCHES:]) / sum(theirs[-BATCHES:])
    assert last == pytest.approx(1.0, abs=0.01), f"{last:.4f}"
