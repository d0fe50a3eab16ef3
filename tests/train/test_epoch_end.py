"""The validation losses of an epoch; `test_trainer` has the order of its end."""

import pytest
import torch

from tests.train.test_step import SHAPE, a_batch, a_learner, same, weights
from train.dataset.batches import Batch
from train.epoch_end import mean_losses
from train.step import train_step
from xtts.model.training import pack


def test_evaluating_changes_nothing():
    learner = a_learner()
    train_step(learner, a_batch())
    before, random_state = weights(learner), torch.get_rng_state()
    first = mean_losses(learner, [a_batch(1), a_batch(2)])
    assert first == mean_losses(learner, [a_batch(1), a_batch(2)])
    assert same(before, weights(learner))
    assert torch.equal(random_state, torch.get_rng_state())


def test_validation_is_the_mean_over_tokens_not_over_batches():
    learner = a_learner()
    short = Batch(
        pack([torch.tensor([3])], [torch.tensor([4])], [torch.zeros(80, 9)], SHAPE, stop_input=False),
        (0,),
        0.1,
    )
    one, other = mean_losses(learner, [a_batch()]), mean_losses(learner, [short])
    both = mean_losses(learner, [a_batch(), short])
    many, few = 12 + 7 + 8, 5
    expected = (one["audio_loss"] * many + other["audio_loss"] * few) / (many + few)
    assert both["audio_loss"] == pytest.approx(expected, rel=1e-5)
