"""What follows the steps of an epoch."""

from collections.abc import Iterable

import torch

from train.dataset.batches import Batch
from train.step import LOSS_TERMS, Learner
from xtts.model import training


@torch.no_grad()
def mean_losses(learner: Learner, batches: Iterable[Batch]) -> dict[str, float]:
    """The mean loss terms over all tokens of these batches, without dropout, with the weights that
    would be saved. Changes no state."""
    learner.gpt.eval()
    sums = torch.zeros(2 * len(LOSS_TERMS), dtype=torch.float64)
    with learner.weights.as_saved():
        for batch in batches:
            with learner.autocast():
                losses = training.losses(learner.gpt, batch.rows.to(learner.device))
            means, counts = [float(mean) for mean in losses], batch.rows.num_targets
            products = [mean * count for mean, count in zip(means, counts, strict=True)]
            sums += torch.tensor([*products, *counts]).double()
    all_sums = learner.world.all_reduce(*sums.tolist())
    totals, numbers = all_sums[: len(LOSS_TERMS)], all_sums[len(LOSS_TERMS) :]
    # A stop during validation may leave no tokens; the result is not used then.
    return {
        term: total / max(1.0, number)
        for term, total, number in zip(LOSS_TERMS, totals, numbers, strict=True)
    }
