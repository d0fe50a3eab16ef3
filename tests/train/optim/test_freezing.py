"""Freezing parts by name, and the error for an unknown name."""

import pytest

from machine.errors import SotaqueError
from tests.train.test_step import a_batch, a_learner, weights
from train.optim.trainable import TrainableParts, freeze, frozen_weights
from train.step import train_step
from xtts.model.config import TrainingAdvice


def test_what_a_pattern_fits_stays_without_a_state_and_the_rest_learns():
    advice = TrainingAdvice(freeze=" conditioning_*, gpt.h.0 ,*.bias,,")
    globs = frozen_weights(advice, with_adapters=False)
    assert globs == ("conditioning_*", "gpt.h.0", "*.bias")
    learner = a_learner(trainable=TrainableParts(freeze=globs))
    before = weights(learner)
    for seed in range(2):
        train_step(learner, a_batch(seed))
    still = {name for name, now in learner.gpt.state_dict().items() if now.equal(before[name])}
    heads = ("conditioning_", "gpt.h.0.")
    assert still == {name for name in before if name.startswith(heads) or name.endswith(".bias")}
    frozen = {id(one) for name, one in learner.gpt.named_parameters() if name in still}
    assert not any(id(one) in frozen for one in learner.optimizer.state)


@pytest.mark.parametrize(
    ("glob", "told"),
    [
        ("text_embeding", "'text_embeding', which matches no weight.*text_embedding"),
        ("*", "which matches every weight"),
    ],
)
def test_a_pattern_that_fits_nothing_or_everything_is_refused_with_the_names_of_the_parts(glob, told):
    with pytest.raises(SotaqueError, match=told) as raised:
        freeze(a_learner().gpt, (glob,))
    assert raised.value.exit_code == 2


def test_a_layer_number_is_not_the_beginning_of_another():
    gpt = a_learner().gpt
    freeze(gpt, ("gpt.h.1",))
    frozen = [name for name, one in gpt.named_parameters() if not one.requires_grad]
    assert frozen and all(name.startswith("gpt.h.1.") for name in frozen)


def test_what_the_base_recommends_is_frozen_but_beside_adapters():
    advice = TrainingAdvice(freeze="conditioning_*, text_*")
    assert frozen_weights(advice, with_adapters=False) == ("conditioning_*", "text_*")
    assert frozen_weights(advice, with_adapters=True) == ()
    assert frozen_weights(TrainingAdvice(), with_adapters=False) == ()
