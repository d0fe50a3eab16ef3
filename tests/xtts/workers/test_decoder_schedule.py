"""How long a decoder is trained."""

import itertools

import pytest

from xtts.model.config import ModelConfig
from xtts.voices.base_models import DEMO
from xtts.workers.decoder_schedule import (
    DEFAULT_STEPS,
    MIN_STEPS,
    TRAINING_EPOCHS,
    average_decay,
    steps_for,
    steps_until,
)


def test_more_sound_allows_more_steps_and_few_clips_stop_early():
    minutes = [0.05, 0.4, 1.2, 3.5, 12.0, 60.0]
    steps = [steps_for(minute) for minute in minutes]
    assert steps == sorted(steps) and len(set(steps[1:])) == 5
    assert (steps[0], steps[-1]) == (MIN_STEPS, DEFAULT_STEPS.most)
    # Each minute more allows fewer: the clips are repeated less often.
    assert steps[1] / 0.4 > steps[3] / 3.5 > steps[4] / 12


def test_the_demo_base_stops_early_with_few_clips_and_at_200_steps_with_many():
    """More steps cost readers with six clips their naturalness, and slt with 300 clips gained nothing."""
    rule = ModelConfig.read(DEMO).training.decoder_steps
    assert rule is not None
    assert [steps_for(minutes, rule) for minutes in (0.3, 0.65, 2.7, 3.4, 15.0)] == [24, 39, 162, 200, 200]


@pytest.mark.parametrize("minutes", [0.1, 0.4, 3.5, 12.0])
def test_the_first_epochs_share_them_and_later_ones_take_none(minutes):
    until = [steps_until(epoch, minutes) for epoch in range(1, TRAINING_EPOCHS + 3)]
    assert until[TRAINING_EPOCHS - 1 :] == [steps_for(minutes)] * 3
    each = until[0]
    assert all(0 < b - a <= each for a, b in itertools.pairwise(until[:TRAINING_EPOCHS]))


def test_the_average_is_over_a_ninth_of_the_steps():
    """Half of the weight of a mean of 0, 1, 2, … is on the last tenth of them."""
    mean, weights = 0.0, []
    for step in range(1, 201):
        decay = average_decay(step)
        mean = decay * mean + (1 - decay) * step
        weights = [decay * weight for weight in weights] + [1 - decay]
    assert mean == pytest.approx(200 - 200 / 10, rel=0.02)
    assert 0.55 < sum(weights[-20:]) < 0.7
    assert average_decay(1) == pytest.approx(0.1)
