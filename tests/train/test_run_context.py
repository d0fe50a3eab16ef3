"""What is said of a run that has as many epochs as are asked for, or more."""

import pytest

from train.run_context import StartPosition


@pytest.mark.parametrize(
    ("start", "num_epochs", "said", "more"),
    [
        (StartPosition(5), 4, "All 4 epochs are done already.", 5),
        (StartPosition(2), 1, "The one epoch is done already.", 2),
        (StartPosition(3), 1, "The run has 2 epochs already, more than NUM_EPOCHS=1", 3),
        (
            StartPosition(2, 3),
            1,
            "The run has 1 epoch and 3 batches of epoch 2 already, more than",
            2,
        ),
    ],
)
def test_what_is_done_is_counted(
    start: StartPosition, num_epochs: int, said: str, more: int
) -> None:
    told = start.nothing_left(num_epochs)
    assert told.startswith(said)
    assert f"Set NUM_EPOCHS to {more} or more to go on" in told
