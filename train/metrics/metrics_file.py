"""metrics.jsonl: one JSON line for every step, whole or not at all."""

import errno
import json
import logging
import os
from pathlib import Path

from machine.storage.files import make_folder, replace_file, writing_to

log = logging.getLogger("train")


class MetricsFile:
    """The file of one run, opened for appending. Raises WriteError if it cannot be opened."""

    def __init__(self, path: Path, step: int) -> None:
        """Truncates the file after `step`, the last step before the run continues."""
        make_folder(path.parent)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        with writing_to(path):
            cut_back(path, step)
            self._descriptor = os.open(path, flags, 0o666)

    def write(self, record: dict[str, object]) -> None:
        """Appends a record. Raises OSError, after removing a partial line."""
        line = json.dumps(record).encode() + b"\n"
        before = os.fstat(self._descriptor).st_size
        written = os.write(self._descriptor, line)
        if written != len(line):
            os.ftruncate(self._descriptor, before)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self) -> None:
        """Closes the file."""
        os.close(self._descriptor)


def cut_back(path: Path, step: int) -> None:
    """Removes what a killed run wrote after its last checkpoint, and a partial line."""
    if not path.is_file():
        return
    lines = path.read_bytes().split(b"\n")
    rest, steps = lines.pop(), [_step_of(line) for line in lines]
    remaining = [line for line, at in zip(lines, steps, strict=True) if at is not None and at <= step]
    if (damaged := steps.count(None) + bool(rest)) > 0:
        log.warning(
            "%s: %d incomplete or damaged lines were removed. The run was killed while it wrote "
            "them, or the disk was full.",
            path,
            damaged,
        )
    if len(remaining) != len(lines) or rest:
        replace_file(path, lambda file: file.write(b"".join(line + b"\n" for line in remaining)))
    last = max((at for at in steps if at is not None and at <= step), default=0)
    if remaining and last < step:
        log.warning(
            "%s: steps %d to %d are missing from the file. The weights include them.", path, last + 1, step
        )


def _step_of(line: bytes) -> int | None:
    """The step of a line; None if it is not a record."""
    try:
        return int(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return None
