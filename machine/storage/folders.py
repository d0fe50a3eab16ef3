"""Writes a whole folder: it is complete or absent, whatever kills the writer."""

import contextlib
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from machine.storage.files import make_folder, require_space, sync_folder, writing_to


@contextlib.contextmanager
def replacing_folder(target: Path, num_bytes: int) -> Iterator[Path]:
    """Yields a temporary folder beside `target`, which replaces `target` if the block ends without an error.
    num_bytes: the space needed. Raises DiskFull or WriteError."""
    part = target.parent / f".{target.name}.{os.getpid()}.sotaque-part"
    try:
        make_folder(target.parent)
        with writing_to(target, num_bytes):
            require_space(target.parent, num_bytes, target.name)
            _remove_leftovers(target)
            part.mkdir()
        yield part
        with writing_to(target, num_bytes):
            _rename_into_place(part, target)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _remove_leftovers(target: Path) -> None:
    """Removes leftovers of killed writers of `target`, except a folder that one of them was replacing:
    it may be the only copy."""
    for leftover in _leftovers(target):
        if not leftover.name.endswith(".old.sotaque-part"):
            shutil.rmtree(leftover, ignore_errors=True)


def _leftovers(target: Path) -> list[Path]:
    # Not a glob: the name may hold `*` or `[`, and `Anna` must not match the leftovers of `Anna.B`.
    pattern = re.compile(rf"\.{re.escape(target.name)}\.\d+(\.old)?\.sotaque-part")
    return [path for path in target.parent.iterdir() if pattern.fullmatch(path.name)]


def _rename_into_place(part: Path, target: Path) -> None:
    old = part.with_name(part.name.replace(".sotaque-part", ".old.sotaque-part"))
    if target.exists():
        target.rename(old)
    try:
        part.rename(target)
    except OSError:
        if old.exists():
            old.rename(target)
        raise
    sync_folder(target.parent)
    # The replaced folder, and leftovers of killed writers.
    for leftover in _leftovers(target):
        shutil.rmtree(leftover, ignore_errors=True)
