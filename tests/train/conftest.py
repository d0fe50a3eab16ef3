"""What the tests of whole runs share: a workshop for each module, one nursery for all of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.train.nursery import EPOCHS, STEPS_PER_EPOCH, Ground
from tests.train.test_run import Workshop
from xtts.voices.run_folder import RunFolder


@pytest.fixture(scope="module")
def workshop(base_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """Runs that are trained in this process."""
    return Workshop(base_folder, tmp_path_factory.mktemp("workshop"))


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
