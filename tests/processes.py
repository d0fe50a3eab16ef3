"""Processes as the kernel tells of them: whether one has ended, and what one has open."""

import contextlib
import os
import time
from pathlib import Path


def gone(pid: int, within_seconds: float = 5.0) -> bool:
    """Whether a process that is not ours to wait for ends in time."""
    end = time.monotonic() + within_seconds
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state in "ZX":  # ended, and not waited for
            return True
        time.sleep(0.02)
    return False


def open_files(pid: int) -> set[str]:
    """What a process has open; a file that it closes while one looks is none of them."""
    found = set()
    for number in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.add(os.readlink(f"/proc/{pid}/fd/{number}"))
    return found


def written(note: Path, within_seconds: float = 20.0) -> str:
    """The text of a file that another process writes whole, as soon as it is there."""
    end = time.monotonic() + within_seconds
    while not note.exists() and time.monotonic() < end:
        time.sleep(0.02)
    return note.read_text()
