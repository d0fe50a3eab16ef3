"""The disk space of a whole run: the sum, and what is refused."""

import logging
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from machine.storage.atomic import DiskFull
from train.checkpointing import disk_space
from train.checkpointing.disk_space import Need, judge, needs
from train.settings import TrainSettings

GB = 10**9
SETTINGS = TrainSettings(output_dir=Path("/output"), cache_dir=Path("/cache"))
RUN = {"checkpoint": 2 * GB, "trainer_state": 4 * GB, "cache": GB, "saves": 20}


@pytest.mark.parametrize(
    ("changed", "checkpoints", "states"),
    [
        ({}, 6, 3),  # three kept, the best, its blend, and the one that is being written
        ({"keep": 1}, 4, 3),
        ({"blend": "off"}, 5, 3),
        ({"keep": None}, 21, 3),
        ({"saves": 1}, 2, 1),
        ({"saves": 2}, 3, 2),
        ({"saved": 4, "states": 2}, 2, 1),
        ({"saved": 2, "states": 2, "saves": 18}, 4, 1),
        ({"saved": 9, "states": 2}, 2, 1),  # KEEP_CHECKPOINTS was higher before
    ],
)
def test_the_disk_at_its_fullest(changed, checkpoints, states):
    changed = dict(changed)
    settings = replace(
        SETTINGS, keep_checkpoints=changed.pop("keep", 3), blend=changed.pop("blend", "auto")
    )
    output, cache = needs(settings, **RUN | changed)
    assert output == Need(Path("/output"), 7_200_000_000, (2 * checkpoints + 4 * states) * GB)
    assert cache == Need(Path("/cache"), GB, GB)


def free_gb(monkeypatch: pytest.MonkeyPatch, free: float) -> None:
    space: Any = SimpleNamespace(f_bavail=int(free * GB), f_frsize=1)
    monkeypatch.setattr(disk_space.os, "statvfs", lambda _: space)


def test_what_fits_is_told_and_what_does_not_is_warned_about(monkeypatch):
    needed = needs(SETTINGS, **RUN)
    free_gb(monkeypatch, 100)
    line = "Disk: up to 25.0 GB more in /output; 100.0 GB free."
    assert judge(needed) == [(logging.INFO, line)]
    free_gb(monkeypatch, 20)
    ((level, warning),) = judge(needed)
    assert level == logging.WARNING
    assert "will not fit into /output: 25.0 GB needed, 20.0 GB free" in warning
    assert "KEEP_CHECKPOINTS" in warning


def test_a_first_epoch_that_cannot_be_saved_is_refused_with_74(monkeypatch):
    free_gb(monkeypatch, 8.3)
    assert len(judge(needs(SETTINGS, **RUN))) == 1  # 1.2 times 6 GB, and the cache
    free_gb(monkeypatch, 8.0)
    with pytest.raises(DiskFull, match=r"8,200,000,000 .* 8,000,000,000") as raised:
        judge(needs(SETTINGS, **RUN))
    assert raised.value.exit_code == 74
    # A disk for the cache alone needs no more than that.
    assert len(judge(needs(SETTINGS, **RUN)[1:])) == 1


def test_folders_on_one_disk_are_one_sum(tmp_path):
    """Also where they do not exist yet; nothing is made by looking."""
    folders = {"output_dir": tmp_path / "a/b", "cache_dir": tmp_path / "c"}
    settings = replace(SETTINGS, **folders)
    ((_, said),) = judge(needs(settings, checkpoint=10**9, trainer_state=0, cache=10**9, saves=1))
    assert said.startswith(f"Disk: up to 3.0 GB more in {tmp_path / 'a/b'}; ")
    assert list(tmp_path.iterdir()) == []
    assert needs(settings, checkpoint=1, trainer_state=0, cache=1, saves=0) == judge([]) == []
