"""Averaged weights are spoken and saved; training itself does not change."""

import torch

from tests.train.test_step import a_batch, a_learner, same, weights
from train.epoch_end import mean_losses
from train.optim.trainable import TrainableParts
from train.step import train_step
from xtts.model.gpt import from_coqui

AVERAGED = TrainableParts(ema_decay=0.5)


def test_the_average_is_what_the_formula_says():
    learner = a_learner(trainable=AVERAGED)
    name = "mel_head.weight"
    expected = learner.gpt.state_dict()[name].clone()
    for number in range(1, 5):
        train_step(learner, a_batch(number))
        decay = min(0.5, number / (number + 9))
        expected = expected.lerp(learner.gpt.state_dict()[name], 1 - decay)
    assert torch.allclose(from_coqui(learner.model_state())[name], expected, atol=1e-7)


def test_the_run_itself_is_what_it_was():
    plain, averaged = a_learner(), a_learner(trainable=AVERAGED)
    for seed in range(3):
        assert train_step(plain, a_batch(seed)) == train_step(averaged, a_batch(seed))
        mean_losses(averaged, [a_batch(9)])
        averaged.model_state()
    assert same(weights(plain), weights(averaged))
    assert not same(plain.model_state(), averaged.model_state())


def test_what_is_validated_is_what_is_saved():
    averaged, plain = a_learner(trainable=AVERAGED), a_learner()
    for seed in range(3):
        train_step(averaged, a_batch(seed))
    plain.resume(averaged.model_state(), None, 3)
    assert mean_losses(averaged, [a_batch(9)]) == mean_losses(plain, [a_batch(9)])


def test_a_saved_state_does_not_move_with_the_next_step():
    learner = a_learner(trainable=AVERAGED)
    train_step(learner, a_batch())
    state = learner.model_state()
    kept = {name: tensor.clone() for name, tensor in state.items()}
    train_step(learner, a_batch(1))
    assert same(kept, state)


def test_a_run_that_had_none_begins_its_averages_where_it_is():
    plain, averaged = a_learner(), a_learner(trainable=AVERAGED)
    train_step(plain, a_batch())
    averaged.resume(plain.model_state(), plain.trainer_state(), 1)
    assert same(averaged.model_state(), plain.model_state())
