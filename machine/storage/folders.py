"""Writes a whole folder: it is complete or absent, whatever kills the writer."""

import contextlib
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from machine.storage.files import make_folder, require_space, sync_folder, writing_to


@contextlib.contextmanager
def whole_folder(to: Path, num_bytes: int) -> Iterator[Path]:
    """Yields a temporary folder next to `to`, and renames it to `to` if the block succeeds.
    num_bytes: the space needed. Raises DiskFull, WriteError."""
    part = to.parent / f".{to.name}.{os.getpid()}.sotaque-part"
    try:
        make_folder(to.parent)
        with writing_to(to, num_bytes):
            require_space(to.parent, num_bytes, to.name)
            _remove_parts(to)
            part.mkdir()
        yield part
        with writing_to(to, num_bytes):
            _give_name(part, to)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _remove_parts(to: Path) -> None:
    """Removes leftovers of killed writers of `to`, except a folder that one of them was replacing:
    it may be the only copy."""
    for left in _parts(to):
        if not left.name.endswith(".old.sotaque-part"):
            shutil.rmtree(left, ignore_errors=True)


def _parts(to: Path) -> list[Path]:
    # Not a glob: the name may hold `*` or `[`, and `Anna` must not find the parts of `Anna.B`.
    form = re.compile(rf"\.{re.escape(to.name)}\.\d+(\.old)?\.sotaque-part")
    return [path for path in to.parent.iterdir() if form.fullmatch(path.name)]


def _give_name(part: Path, to: Path) -> None:
    old = part.with_name(part.name.replace(".sotaque-part", ".old.sotaque-part"))
    if to.exists():
        to.rename(old)
    try:
        part.rename(to)
    except OSError:
        if old.exists():
            old.rename(to)
        raise
    sync_folder(to.parent)
    # The replaced folder, and leftovers of killed writers.
    for left in _parts(to):
        shutil.rmtree(left, ignore_errors=True)
