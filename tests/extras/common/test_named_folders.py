"""Named folders: a deletion that a queue repeats while it starts."""

import shutil
from pathlib import Path
from typing import Any

from extras.common.named_folders import NamedFolder, NamedFolders


class Tape(NamedFolder):
    word = "tape"


def test_a_deletion_is_done_although_a_queue_that_starts_removes_the_same_files(tmp_path, monkeypatch):
    tapes = NamedFolders(tmp_path, Tape, 1 << 30)
    tape = Tape(tmp_path / "anna", "anna", "Anna", "2026-01-02")
    tape.folder.mkdir()
    tape.write()
    rmtree = shutil.rmtree

    def second(path: Path, **more: Any) -> None:
        rmtree(path)
        rmtree(path, **more)

    monkeypatch.setattr(shutil, "rmtree", second)
    tapes.remove(tape)
    assert tapes.all() == [] and list(tmp_path.glob(".deleted-*")) == []
