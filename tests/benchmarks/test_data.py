"""Whole starts are told by the runs themselves."""

from pathlib import Path

import pytest

from benchmarks import data
from xtts.voices import base_models


@pytest.mark.slow  # two processes that import torch, and learn
@pytest.mark.timeout(900)
def test_two_starts_are_told_by_the_runs(tmp_path: Path):
    first, second = data.started(base_models.DEMO, tmp_path)
    assert 0 < second < first + 5
