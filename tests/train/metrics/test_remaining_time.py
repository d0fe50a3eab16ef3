"""The remaining time covers steps, ends of epochs and judging, each with its own estimate."""

from train.metrics.remaining_time import RemainingTime


def test_steps_ends_of_epochs_and_judging_are_left():
    found = RemainingTime(2, 4, conclusion_seconds=50.0)
    found.step(2.0)
    assert found.seconds_left(1, 1) == 7 * 2 + 50
    found.end_epoch(10.0)
    # After an epoch's last step, its validation, checkpoint and sample remain.
    assert found.seconds_left(2, 4) == 10 + 50


def test_a_slow_sample_makes_no_step_seem_slow():
    found = RemainingTime(3, 2)
    for _ in range(2):
        found.step(1.0)
    found.end_epoch(60.0)
    found.step(1.0)
    assert found.seconds_left(2, 1) == 3 * 1 + 2 * 60
