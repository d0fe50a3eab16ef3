"""What was heard so far, on disk: a cut that was killed goes on where it stopped.

A line of JSON for each chunk, appended. The first line is the fingerprint of recordings and text; a
line that a kill cut short is not read.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from machine.storage.atomic import make_folder, refused


class HeardJournal:
    """What was heard, by chunk. Raises DiskFull or WriteError from `put`."""

    def __init__(self, path: Path, fingerprint: str) -> None:
        self._path = path
        self._known, whole = _read(path, fingerprint)
        make_folder(path.parent)
        with refused(path):
            self._file = path.open("r+b" if whole else "wb")
            self._file.truncate(whole)
            self._file.seek(whole)
        if not whole:
            self._write(json.dumps({"fingerprint": fingerprint}))

    def get(self, chunk: str) -> list[Any] | None:
        """What `put` was given for a chunk, tuples as lists; None where it is not known."""
        return self._known.get(chunk)

    def put(self, chunk: str, values: Sequence[Any]) -> None:
        """Remembers what JSON can hold."""
        self._write(json.dumps({"chunk": chunk, "words": values}))

    def close(self) -> None:
        """The file stays."""
        self._file.close()

    def _write(self, line: str) -> None:
        with refused(self._path):
            self._file.write(line.encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())


def _read(path: Path, fingerprint: str) -> tuple[dict[str, list[Any]], int]:
    """(What it holds, bytes that are whole); nothing where it is of other recordings."""
    try:
        content = path.read_bytes()
    except OSError:
        return {}, 0
    known, whole = {}, 0
    for number, line in enumerate(content.splitlines(keepends=True)):
        try:
            entry = json.loads(line) if line.endswith(b"\n") else None
        except ValueError:
            entry = None
        if entry is None or (number == 0 and entry.get("fingerprint") != fingerprint):
            break
        if number:
            known[entry["chunk"]] = entry["words"]
        whole += len(line)
    return known, whole
