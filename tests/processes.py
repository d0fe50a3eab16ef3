"""Processes according to the kernel: whether one has ended, and its open files."""

import contextlib
import os
import time
from pathlib import Path


def gone(pid: int, within_seconds: float = 5.0) -> bool:
    """Whether a process that is not our child ends in time."""
    end = time.monotonic() + within_seconds
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state in "ZX":  # ended, but not reaped
            return True
        time.sleep(0.02)
    return False


def open_files(pid: int) -> set[str]:
    """The open files of a process, without those that it closes meanwhile."""
    found = set()
    for number in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.add(os.readlink(f"/proc/{pid}/fd/{number}"))
    return found


def written(note: Path, within_seconds: float = 20.0) -> str:
    """The text of a file that another process writes atomically, as soon as it exists."""
    end = time.monotonic() + within_seconds
    while not note.exists() and time.monotonic() < end:
        time.sleep(0.02)
    return note.read_text()
