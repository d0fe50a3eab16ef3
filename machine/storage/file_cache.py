"""A JSON file that caches facts about files and texts between starts.

A damaged or unwritable file costs only time, because every entry can be computed again. A seal over
the content reveals damage: a flipped bit in a clip's length is still a number, and would change the
order of the batches.
"""

import contextlib
import hashlib
import json
import logging
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from machine.storage.atomic import WriteError, write_json

log = logging.getLogger(__name__)


def cache_folder(environ: Mapping[str, str]) -> Path:
    """The user's cache folder; in a container it is lost with the container."""
    base = Path(environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or "~") / ".cache")
    with contextlib.suppress(RuntimeError):  # a user without a home
        base = base.expanduser()
    return base / "sotaque"


class FileCache:
    """A thread-safe map from keys to JSON values.

    Args:
        path: The JSON file.
        level: The log level for a damaged or unwritable file.
    """

    def __init__(self, path: Path, level: int = logging.WARNING) -> None:
        self.path = path
        self._level = level
        self._known = _loaded(path, level)
        self._changed = False
        self._lock = threading.Lock()

    def get(self, key: str) -> Any | None:
        """The value of `key`, or None."""
        with self._lock:
            return self._known.get(key)

    def put(self, key: str, value: Any) -> None:
        """Sets a value."""
        with self._lock:
            self._known[key] = value
            self._changed = True

    def save(self) -> None:
        """Writes the file if anything changed; a failure is only logged."""
        if not self._changed:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_json(self.path, {"seal": seal_of(self._known), "known": self._known})
        except (OSError, WriteError) as error:
            log.log(
                self._level, "%s cannot be written; the next start computes its values again. %s",
                self.path, error,
            )  # fmt: skip


def _loaded(path: Path, level: int) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        known: dict[str, Any] = content["known"]
        if content["seal"] != seal_of(known):
            raise ValueError("its seal does not match its content")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        log.log(level, "%s is damaged and will be rebuilt (%s).", path, error)
        return {}
    return known


def seal_of(content: Mapping[str, Any]) -> str:
    """The SHA-256 of JSON values, which reveals changes and damage."""
    text = json.dumps(content, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
