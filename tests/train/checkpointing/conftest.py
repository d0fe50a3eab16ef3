"""Fixtures: a run folder and its checkpoints."""

from pathlib import Path

import pytest

from train.checkpointing.checkpoints import Checkpoints
from xtts.voices.run_folder import RunFolder


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "output")


@pytest.fixture
def checkpoints(run: RunFolder) -> Checkpoints:
    return Checkpoints(run, keep=3)
