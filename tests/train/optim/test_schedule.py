"""The learning rate over the steps."""

import pytest

from train.optim.optimizer import rate_factor


def test_it_warms_up_evenly_holds_and_falls_with_the_inverse_square_root():
    assert [rate_factor(step, 4) for step in range(4)] == pytest.approx([0.25, 0.5, 0.75, 1.0])
    # The numbers are stated here: another constant is another curve.
    assert rate_factor(999, 25) == 1.0 and rate_factor(1_001, 25) < 1.0
    assert rate_factor(3_999, 25) == pytest.approx(0.5)
