"""When a run stops early."""

import math

import pytest

from train.epoch_end import EarlyStopping


def after_losses(epochs: int | None, *losses: float, every: int = 1) -> EarlyStopping:
    patience = EarlyStopping(epochs)
    for number, loss in enumerate(losses, start=1):
        patience.record_loss(every * number, loss)
    return patience


@pytest.mark.parametrize(
    ("epochs", "losses", "over"),
    [
        (2, (3.0, 2.0, 2.1, 2.2), True),
        (2, (3.0, 2.0, 2.1), False),
        (2, (3.0, 2.0, 2.1, 1.9, 2.5), False),
        (1, (3.0, 3.0), True),  # equal is not better
        (1, (math.nan, 2.0), True),  # no later loss is below NaN
        (None, (1.0,) + (2.0,) * 50, False),
        (3, (), False),
    ],
)
def test_over(epochs, losses, over):
    assert after_losses(epochs, *losses).over is over


def test_a_resumed_run_waits_on_and_epochs_without_a_validation_count():
    first, second = after_losses(3, 1.0, 1.5, every=2), EarlyStopping(3)
    second.resume(first.state())
    assert not first.over and not second.over
    second.record_loss(6, 1.5)
    assert second.over and "since 2 (audio loss 1.000)" in second.reason
    second.epochs = 5
    assert not second.over


@pytest.mark.parametrize(
    ("best", "judged", "unjudged", "ends_after"),
    [
        (0, (1, 2, 3), 0, 3),
        (1, (1, 5), 0, None),  # only one newer epoch was judged
        (1, (1, 5, 9, 10), 1, 10),  # one is still being judged
        (4, (1, 4), 1, None),
        (4, (1, 4), 2, 4),  # judging has ended: the loss decides
    ],
)
def test_the_verdict_counts_epochs_that_were_judged(best, judged, unjudged, ends_after):
    patience = after_losses(3, 1.0, 2.0, 2.0, 2.0)
    patience.record_verdict(best, judged, unjudged)
    assert patience.over is (ends_after is not None)
    assert not patience.over or f"The run ends after epoch {ends_after} " in patience.reason
