"""The disk space of a whole run: the sum, its parts, and what is refused."""

import os
from pathlib import Path
from typing import Any

import pytest

from machine.storage.atomic import DiskFull
from train.checkpointing import disk_space
from train.checkpointing.disk_space import Disk, by_disk, summary, warnings_of

GB = 10**9
OUTPUT, RUNS, CACHE = Path("/output"), Path("/runs"), Path("/cache")
RUN = {
    "checkpoint": 2 * GB, "trainer_state": 4 * GB, "cache": GB,
    "saves": 20, "samples": 20, "steps": 1000, "keep": 3, "best_stays": True,
}  # fmt: skip


def parts(*folders: Path, **changes: Any) -> list[disk_space.Part]:
    return disk_space.parts(*(folders or (OUTPUT, RUNS, CACHE)), **RUN | changes)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, (5, 3)),  # three kept, the best, and the one that is being written
        ({"best_stays": False}, (4, 3)),
        ({"keep": 1}, (3, 3)),
        ({"keep": None}, (20, 3)),
        ({"saves": 1}, (1, 1)),
        ({"saves": 2}, (2, 2)),
        ({"saved": 4, "states": 2}, (1, 1)),  # at its fullest: one is written, then one goes
        ({"saved": 2, "states": 2, "saves": 18}, (3, 1)),
        ({"saved": 9, "states": 2}, (1, 1)),  # KEEP_CHECKPOINTS was higher before
    ],
)
def test_what_stands_on_the_disk_at_its_fullest(changed, expected):
    checkpoints, states, *_ = parts(**changed)
    assert (checkpoints.count, states.count) == expected


def test_what_the_end_of_a_run_leaves_is_counted():
    without = {part.name: part.bytes for part in parts()}
    more = {part.name: part.bytes for part in parts(judged=8, blended=True, decoder=GB // 10)}
    assert {name: size for name, size in more.items() if size != without[name]} == {
        "best blend": pytest.approx(2 * GB, rel=1e-3),
        "judged sentences": 8 * 4 * disk_space.SENTENCE_BYTES,
        "learned decoders": 6 * (GB // 10),
    }
    assert without["best blend"] == without["judged sentences"] == 0


def disk(free_gb: float) -> Disk:
    return Disk(OUTPUT, int(free_gb * GB), tuple(parts()))


def test_the_sum_is_told_with_its_parts():
    sentence = summary(disk(100))
    assert sentence.startswith("Disk: up to 23.2 GB more in /output (5 checkpoints 10.0 GB, ")
    for part in ("3 optimizer states 12.0 GB", "20 samples", "feature cache 1.0 GB", "curves"):
        assert part in sentence
    assert sentence.endswith("; 100.0 GB free.")


def test_what_fits_is_not_warned_about_and_what_does_not_is():
    assert warnings_of([disk(100)]) == []
    (warning,) = warnings_of([disk(20)])
    assert "will not fit into /output: 23.2 GB needed, 20.0 GB free" in warning
    assert "KEEP_CHECKPOINTS" in warning


def test_a_first_epoch_that_cannot_be_saved_is_refused_with_74():
    assert len(warnings_of([disk(8.3)])) == 1  # 1.2 times 6 GB, and the cache
    with pytest.raises(DiskFull, match=r"8,200,000,000 .* 8,000,000,000") as raised:
        warnings_of([disk(8.0)])
    assert raised.value.exit_code == 74
    assert "(checkpoint 2.4 GB, optimizer state 4.8 GB, feature cache 1.0 GB)" in str(raised.value)
    # A disk for the curves alone refuses nothing.
    assert len(warnings_of([Disk(RUNS, 0, tuple(parts()[-1:]))])) == 1


def test_folders_on_one_disk_are_one_sum(tmp_path):
    """Also where they do not exist yet; nothing is made by looking."""
    found = parts(tmp_path / "a/b", tmp_path / "c", tmp_path / "d")
    (one,) = by_disk(found)
    assert one.needed == sum(part.bytes for part in found)
    free = os.statvfs(tmp_path)
    assert one.free == pytest.approx(free.f_bavail * free.f_frsize, rel=0.2)
    assert list(tmp_path.iterdir()) == []
    assert parts(saves=0) == disk_space.by_disk([]) == []
