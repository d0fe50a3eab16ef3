"""The rate over the steps."""

import pytest

from train.optim.optimizer import COSINE_END, HOLD_STEPS, Schedule


@pytest.mark.parametrize("name", ["constant", "cosine", "inverse_sqrt"])
def test_every_schedule_warms_up_evenly(name):
    found = Schedule(name, warmup_steps=4, total_steps=5_000)
    assert [found.factor(step) for step in range(4)] == pytest.approx([0.25, 0.5, 0.75, 1.0])


def test_what_comes_behind_the_warm_up():
    assert Schedule("constant").factor(10**6) == 1.0
    cosine = Schedule("cosine", warmup_steps=10, total_steps=110)
    assert cosine.factor(60) == pytest.approx((1 + COSINE_END) / 2)
    assert cosine.factor(110) == cosine.factor(500) == pytest.approx(COSINE_END)
    root = Schedule()
    assert root.factor(HOLD_STEPS - 1) == 1.0
    assert root.factor(4 * HOLD_STEPS - 1) == pytest.approx(0.5)


def test_a_longer_run_continues_the_default_schedule():
    short, long = (Schedule(warmup_steps=10, total_steps=steps) for steps in (100, 9_000))
    assert [short.factor(step) for step in range(3_000)] == [
        long.factor(step) for step in range(3_000)
    ]
