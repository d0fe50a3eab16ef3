"""Caches slow readings until the files they depend on change.

A cache that is damaged, of another version or cannot be written is no cache, and nothing else.
"""

import contextlib
import hashlib
import json
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from machine.storage.file_cache import FileCache
from machine.storage.hash_cache import FileStamp, stamp_of


class DoctorCache:
    """path: the JSON file; None remembers nothing."""

    def __init__(self, path: Path | None) -> None:
        # The doctor has more important things to report than the state of its cache.
        self._kept = FileCache(path, logging.DEBUG) if path else None

    def get(self, what: str, key: str) -> dict[str, Any] | None:
        """What was found under this very key, or None."""
        kept = self._kept.get(what) if self._kept else None
        return dict(kept["found"]) if kept and kept["key"] == key else None

    def put(self, what: str, key: str, found: Mapping[str, Any]) -> None:
        """Replaces what was known."""
        if self._kept:
            self._kept.put(what, {"key": key, "found": dict(found)})
            self._kept.save()


def key_of(paths: Iterable[Path], others: Iterable[str]) -> str:
    """A SHA-256 over the stamp of each file, and over other words."""
    stamps: list[FileStamp] = []
    for path in paths:
        with contextlib.suppress(OSError):
            stamps.append(stamp_of(path))
    return hashlib.sha256(json.dumps([sorted(stamps), *others]).encode()).hexdigest()
