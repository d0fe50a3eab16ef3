"""Whatever happens to a file of a folder changes its stamp; just written files are not trusted."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from machine.storage import tree_stamp as stamps
from machine.storage.tree_stamp import tree_stamp


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "wavs").mkdir()
    for name in ("metadata.csv", "wavs/a.wav", "wavs/b.wav"):
        (tmp_path / name).write_text(f"{len(name):3}")
    return tmp_path


def of(folder: Path) -> str:
    stamp = tree_stamp(folder)
    assert stamp
    return stamp.sha256


def changed(folder: Path) -> None:
    (folder / "wavs/a.wav").write_text("new")


def changed_with_its_time_set_back(folder: Path) -> None:
    path = folder / "wavs/a.wav"
    before = path.stat()
    path.write_text("new")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_mtime_ns == before.st_mtime_ns


def swapped(folder: Path) -> None:
    a, b = folder / "wavs/a.wav", folder / "wavs/b.wav"
    for path in (a, b):
        os.utime(path, (1, 1))
    a.rename(folder / "aside")
    b.rename(a)
    (folder / "aside").rename(b)


CHANGES: list[Callable[[Path], object]] = [
    changed,
    changed_with_its_time_set_back,
    swapped,
    lambda folder: (folder / "wavs/a.wav").unlink(),
    lambda folder: (folder / "wavs/a.wav").rename(folder / "wavs/c.wav"),
    lambda folder: (folder / "wavs/deep").mkdir(),
    lambda folder: (folder / "wavs/c.wav").write_text("new"),
    lambda folder: (folder / "c.wav").symlink_to("nowhere"),
]


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_changes_the_stamp(folder, change):
    before = of(folder)
    assert of(folder) == before
    change(folder)
    assert of(folder) != before


def test_links_are_followed_once(folder, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    (other / "c.wav").write_text("one")
    (folder / "linked").symlink_to(other)
    (other / "back").symlink_to(folder)
    before = of(folder)
    (other / "c.wav").write_text("two")
    assert of(folder) != before


def test_what_has_just_changed_is_not_trusted(folder, monkeypatch):
    """Another change within the same tick of the clock would leave the same times behind."""
    assert tree_stamp(folder).is_racy
    assert stamps.is_racy((folder / "metadata.csv").stat())
    monkeypatch.setattr(stamps, "RACY_SECONDS", -1.0)
    assert not tree_stamp(folder).is_racy
    assert not stamps.is_racy((folder / "metadata.csv").stat())


def test_a_folder_that_is_missing_or_endless_has_none(folder, monkeypatch):
    assert tree_stamp(folder / "absent") is None
    monkeypatch.setattr(stamps, "_MOST_FILES", 3)
    assert tree_stamp(folder) is None
