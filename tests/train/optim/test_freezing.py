"""Freezing parts by name, and the error for an unknown name."""

import pytest

from machine.errors import SotaqueError
from tests.train.test_learner import a_batch, a_learner, weights
from train.optim.trainable import TrainableParts, freeze, frozen_weights, patterns
from train.trainer import train_step
from xtts.model.config import TrainingAdvice


def test_what_a_pattern_fits_stays_without_a_state_and_the_rest_learns():
    globs = patterns(" conditioning_*, gpt.h.0 ,*.bias,,")
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
        ("gpt.h.1.atn", r"'gpt.h.1.atn', which matches no weight.*gpt\.h\.1\.attn"),
        ("vocoder", "'vocoder', which matches no weight.*The parts are .*mel_head"),
        ("*", "freezes every weight"),
    ],
)
def test_a_pattern_that_fits_nothing_or_everything_is_refused_with_the_names_near_it(glob, told):
    with pytest.raises(SotaqueError, match=told) as raised:
        freeze(a_learner().gpt, (glob,))
    assert raised.value.exit_code == 2


def test_a_layer_number_is_not_the_beginning_of_another():
    gpt = a_learner().gpt
    assert freeze(gpt, ("gpt.h.1",)) == sum(p.numel() for p in gpt.gpt.h[1].parameters())


def test_what_the_base_recommends_is_frozen_but_beside_adapters():
    advice = TrainingAdvice(freeze="conditioning_*, text_*")
    assert frozen_weights(advice, with_adapters=False) == ("conditioning_*", "text_*")
    assert frozen_weights(advice, with_adapters=True) == ()
    assert frozen_weights(TrainingAdvice(), with_adapters=False) == ()
