"""Temporary files of killed writers are removed, those of running ones are not."""

import os
import time

import pytest

from machine.storage.leftovers import STALE_SECONDS, remove_stale


@pytest.mark.parametrize(
    ("older_than_seconds", "left"),
    [(None, ["voice.pt"]), (STALE_SECONDS, [".new.pt.7.sotaque-part", "voice.pt"])],
)
def test_what_a_running_writer_may_still_write_stays(tmp_path, older_than_seconds, left):
    for name, age in (
        (".old.pt.7.sotaque-part", STALE_SECONDS + 60),
        (".new.pt.7.sotaque-part", 60),
        ("voice.pt", STALE_SECONDS + 60),
    ):
        (tmp_path / name).write_bytes(b"x")
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    removed = remove_stale(tmp_path, older_than_seconds=older_than_seconds)
    assert sorted(path.name for path in tmp_path.iterdir()) == left
    assert len(removed) == 3 - len(left)


def test_a_folder_that_is_absent_has_none(tmp_path):
    assert remove_stale(tmp_path / "absent") == []
