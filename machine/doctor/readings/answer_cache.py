"""Caches slow readings until the files they depend on change.

A cache that is damaged, of another version or cannot be written is no cache, and nothing else.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from machine.storage.atomic import WriteError, write_json

_SCHEMA = 1


class DoctorCache:
    """path: the JSON file; None remembers nothing."""

    def __init__(self, path: Path | None) -> None:
        self.path = path

    def get(self, what: str, key: str) -> dict[str, Any] | None:
        """What was found under this very key, or None."""
        kept = self._all().get(what)
        if (
            isinstance(kept, dict)
            and kept.get("key") == key
            and isinstance(kept.get("found"), dict)
        ):
            return dict(kept["found"])
        return None

    def put(self, what: str, key: str, found: Mapping[str, Any]) -> None:
        """Replaces what was known."""
        if self.path is None:
            return
        value = self._all() | {"schema": _SCHEMA, what: {"key": key, "found": dict(found)}}
        with contextlib.suppress(OSError, WriteError, ValueError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_json(self.path, value)

    def _all(self) -> dict[str, Any]:
        if self.path is None:
            return {}
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        whole = isinstance(found, dict) and found.get("schema") == _SCHEMA
        return found if whole else {}


def key_of(paths: Iterable[Path], others: Iterable[str]) -> str:
    """A SHA-256 over (path, size, time of change) of each file, and over other words."""
    seen: list[tuple[str, int, int]] = []
    for path in paths:
        with contextlib.suppress(OSError):
            told = os.stat(path)
            seen.append((str(path), told.st_size, told.st_mtime_ns))
    return hashlib.sha256(json.dumps([sorted(seen), *others]).encode()).hexdigest()
