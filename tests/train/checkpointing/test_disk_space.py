"""The disk space of a whole run: the most checkpoints that it has at once."""

from dataclasses import replace

import pytest

from train.checkpointing.disk_space import most_checkpoints
from train.settings import TrainSettings


@pytest.mark.parametrize(
    ("keep", "saved", "saves", "checkpoints"),
    [
        (3, 0, 20, 6),  # three kept, the best, its blend and the one being written
        (1, 0, 20, 4),
        (None, 0, 20, 21),
        (3, 0, 1, 2),
        (3, 0, 2, 3),
        (3, 4, 20, 2),
        (3, 2, 18, 4),
        (3, 9, 20, 2),  # KEEP_CHECKPOINTS was higher before
    ],
)
def test_the_disk_at_its_fullest(keep, saved, saves, checkpoints):
    settings = TrainSettings(keep_checkpoints=keep)
    assert most_checkpoints(settings, saved, saves) == checkpoints
    settings = replace(settings, blend="off")
    assert most_checkpoints(settings, saved, saves) == checkpoints - 1
