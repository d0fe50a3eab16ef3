"""A JSON file of what was found out about files and texts, kept between starts.

A damaged or unwritable file costs time and nothing else: everything in it can be found out again.
A seal over the content tells a damaged one: a flipped bit in a clip's length is still a number, and
would change the order of the batches.
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
    """The user's folder for what can be found out again; a container's ends with it."""
    base = Path(environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or "~") / ".cache")
    with contextlib.suppress(RuntimeError):  # a user without a home
        base = base.expanduser()
    return base / "sotaque"


class FileCache:
    """key -> a JSON value, for any number of threads.

    Args:
        path: The JSON file.
        level: How loud a damaged or unwritable file is.
    """

    def __init__(self, path: Path, level: int = logging.WARNING) -> None:
        self.path = path
        self._level = level
        self._known = _loaded(path, level)
        self._changed = False
        self._lock = threading.Lock()

    def get(self, key: str) -> Any | None:
        """What is known of `key`, or None."""
        with self._lock:
            return self._known.get(key)

    def put(self, key: str, value: Any) -> None:
        """Remembers a value."""
        with self._lock:
            self._known[key] = value
            self._changed = True

    def save(self) -> None:
        """Writes what changed; a cache that cannot be written is logged and does not matter."""
        if not self._changed:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_json(self.path, {"seal": seal_of(self._known), "known": self._known})
        except (OSError, WriteError) as error:
            log.log(
                self._level, "%s cannot be written; the next start looks again. %s",
                self.path, error,
            )  # fmt: skip


def _loaded(path: Path, level: int) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        known: dict[str, Any] = found["known"]
        if found["seal"] != seal_of(known):
            raise ValueError("its seal does not fit its content")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        log.log(level, "%s is damaged and is made again (%s).", path, error)
        return {}
    return known


def seal_of(content: Mapping[str, Any]) -> str:
    """The SHA-256 of JSON values, which tells that one was changed or damaged."""
    text = json.dumps(content, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
