"""The journal of a cut: the results of recognition so far, so that a killed cut can resume."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from machine.storage.files import make_folder, writing_to


class HeardJournal:
    """Stores results of recognition on disk, so that a killed cut can resume.

    Each chunk appends a line of JSON. The first line is the fingerprint of recordings and text. A
    line that was cut short by a kill is ignored. `put` raises DiskFull or WriteError.
    """

    def __init__(self, path: Path, fingerprint: str) -> None:
        self._path = path
        self._known, whole = self._read(fingerprint)
        make_folder(path.parent)
        with writing_to(path):
            self._file = path.open("r+b" if whole else "wb")
            self._file.truncate(whole)
            self._file.seek(whole)
        if not whole:
            self._write({"fingerprint": fingerprint})

    def get(self, chunk: str) -> list[Any] | None:
        """The values that `put` stored for a chunk, with tuples as lists; None if there are
        none."""
        return self._known.get(chunk)

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
        """(The stored values, the length of the complete lines in bytes); empty if the fingerprint
        differs."""
        try:
            lines = self._path.read_bytes().splitlines(keepends=True)
        except OSError:
            return {}, 0
        entries, whole = {}, 0
        for number, line in enumerate(lines):
            try:
                entry = json.loads(line) if line.endswith(b"\n") else None
            except ValueError:
                entry = None
            if entry is None or (number == 0 and entry.get("fingerprint") != fingerprint):
                break
            if number:
                entries[entry["chunk"]] = entry["words"]
            whole += len(line)
        return entries, whole
