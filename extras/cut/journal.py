"""The journal of a cut: the results of recognition so far, so that a killed cut can resume."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from machine.storage.files import make_folder, writing_to


class RecognitionJournal:
    """One line of JSON per chunk, after a first line with the fingerprint of the recordings and the
    text. A line that a kill cut short is ignored. `put` raises DiskFull or WriteError.
    """

    def __init__(self, path: Path, fingerprint: str) -> None:
        self._path = path
        self._stored, complete_bytes = self._read(fingerprint)
        make_folder(path.parent)
        with writing_to(path):
            self._file = path.open("r+b" if complete_bytes else "wb")
            self._file.truncate(complete_bytes)
            self._file.seek(complete_bytes)
        if not complete_bytes:
            self._write({"fingerprint": fingerprint})

    def get(self, chunk: str) -> list[Any] | None:
        """The values that `put` stored for a chunk, with tuples as lists; None if there are
        none."""
        return self._stored.get(chunk)

    def put(self, chunk: str, values: Sequence[object]) -> None:
        """Stores the values of a chunk, which must be JSON values."""
        self._write({"chunk": chunk, "words": values})

    def close(self) -> None:
        """Closes the file, which stays on disk."""
        self._file.close()

    def _write(self, entry: Mapping[str, object]) -> None:
        with writing_to(self._path):
            self._file.write(json.dumps(entry).encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())

    def _read(self, fingerprint: str) -> tuple[dict[str, list[Any]], int]:
        """Returns the stored values and the length in bytes of the complete lines; nothing if the
        fingerprint differs."""
        try:
            lines = _complete_lines(self._path.read_bytes())
        except OSError:
            return {}, 0
        header, complete_bytes = next(lines, ({}, 0))
        if header.get("fingerprint") != fingerprint:
            return {}, 0
        values = {}
        for entry, length in lines:
            values[entry["chunk"]] = entry["words"]
            complete_bytes += length
        return values, complete_bytes


def _complete_lines(content: bytes) -> Iterator[tuple[dict[str, Any], int]]:
    """The entries before the first incomplete line, with the length of their lines in bytes."""
    for line in content.splitlines(keepends=True):
        try:
            entry = json.loads(line) if line.endswith(b"\n") else None
        except ValueError:
            return
        if entry is None:
            return
        yield entry, len(line)
