"""What the tests of whole runs share: one nursery for all of them."""

from collections.abc import Iterator

import pytest

from tests.train.nursery import EPOCHS, STEPS_PER_EPOCH, Ground
from xtts.voices.run_folder import RunFolder


@pytest.fixture(scope="session")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """Trainers that start at once, and what they train."""
    found = Ground(tmp_path_factory.mktemp("ground"))
    yield found
    found.nursery.close()


@pytest.fixture(scope="session")
def whole(ground: Ground) -> RunFolder:
    """The run to which nothing happens."""
    assert ground.run("whole") == 0, ground.told()
    run = RunFolder(ground.folder / "whole")
    assert run.metrics.read_text().count('"train"') == EPOCHS * STEPS_PER_EPOCH
    return run
