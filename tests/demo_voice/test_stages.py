"""What the next steps need is made beside them, once, in their order."""

import time

import pytest

from demo_voice import stages
from demo_voice.recipe import StageSchedule
from demo_voice.stages import STEPS_AHEAD, ahead


def test_what_is_needed_is_made_once_and_in_its_order():
    made: list[int] = []

    def make(step: int) -> int:
        made.append(step)
        return step

    last = STEPS_AHEAD + 7
    given = list(ahead(make, iter(range(3, last)), last))
    assert given == made == list(range(3, last))


def test_what_cannot_be_made_stops_the_step_that_needs_it():
    def make(step: int) -> int:
        if step == 2:
            raise ValueError("no sound")
        return step

    steps = ahead(make, iter(range(5)), 5)
    assert (next(steps), next(steps)) == (0, 1)
    with pytest.raises(ValueError, match="no sound"):
        next(steps)


def test_who_stops_early_waits_for_one_and_not_for_all():
    made: list[int] = []

    def make(step: int) -> None:
        time.sleep(0.01)
        made.append(step)

    steps = ahead(make, iter(range(10_000)), 10_000)
    next(steps)
    steps.close()
    assert len(made) < STEPS_AHEAD / 2


def test_the_rate_rises_and_falls():
    stage = StageSchedule(1000, 1, 1.0)
    rates = [stages.rate(step, stage) for step in (0, 199, 600, 999)]
    assert rates[0] < 0.01 and rates[1] > 0.85 and rates[1] > rates[2] > rates[3]
    assert rates[3] == pytest.approx(0.02)
