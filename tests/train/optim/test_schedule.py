"""The learning rate over the steps."""

import pytest

from train.optim.optimizer import HOLD_STEPS, rate_factor


def test_it_warms_up_evenly_holds_and_falls_with_the_inverse_square_root():
    assert [rate_factor(step, 4) for step in range(4)] == pytest.approx([0.25, 0.5, 0.75, 1.0])
    assert rate_factor(HOLD_STEPS - 1, 25) == 1.0
    assert rate_factor(4 * HOLD_STEPS - 1, 25) == pytest.approx(0.5)
