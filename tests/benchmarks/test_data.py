"""The synthetic dataset is real to the trainer; whole starts are told by the runs themselves."""

from pathlib import Path

import pytest

from benchmarks import data, scale
from xtts.voices import base_models


def test_a_synthetic_dataset_is_read_like_any_other():
    found = scale.measured(120)
    assert found["clips"] == found["used"] == 120
    assert found["start_seconds"] > 0 and found["start_cpu_seconds"] > 0
    assert "120      120" in scale.told([found])


@pytest.mark.slow  # two processes that import torch, and learn
@pytest.mark.timeout(900)
def test_two_starts_are_told_by_the_runs(tmp_path: Path):
    first, second = data.started(base_models.DEMO, tmp_path)
    assert 0 < second < first + 5
