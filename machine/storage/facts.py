"""Keeps facts about files and texts between starts, in one SQLite table of a folder.

Every fact can be computed again, so a damaged, locked or unwritable table costs only time, and the
log says so. Each row has a checksum: SQLite has none, and a flipped bit in a clip's length would
still be a number and change the order of the batches. No connection stays open, so forked and
parallel processes share the file.
"""

import contextlib
import json
import logging
import sqlite3
import threading
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)

FILE_NAME = "facts.sqlite"
_BUSY_SECONDS = 10.0
_CREATE_TABLE = """CREATE TABLE IF NOT EXISTS facts (namespace TEXT, key TEXT, stamp TEXT, value TEXT,
    checksum INTEGER, PRIMARY KEY (namespace, key)) WITHOUT ROWID"""


class Facts:
    """A thread-safe map from keys to JSON values: one namespace of a folder's table.

    The whole namespace is read at the start; `save` writes the changes.

    Args:
        folder: The folder with the table, created when there is something to keep.
        namespace: What the facts are about, and the version of the code that computes them.
        log_level: The log level for a damaged or unwritable table.
    """

    def __init__(self, folder: Path, namespace: str, log_level: int = logging.WARNING) -> None:
        self.path = folder / FILE_NAME
        self.namespace = namespace
        self._log_level = log_level
        self._rows: dict[str, tuple[str, str]] = {}
        self._changed_keys: set[str] = set()
        self._lock = threading.Lock()
        with contextlib.suppress(OSError):  # a folder that this user may not search
            if self.path.exists():
                self._transact("ro", self._read)

    def get(self, key: str, stamp: str = "") -> Any | None:
        """The value that was put under `key` with the same stamp, or None."""
        with self._lock:
            stored_stamp, text = self._rows.get(key, ("", "null"))
        return json.loads(text) if stored_stamp == stamp else None

    def put(self, key: str, value: object, stamp: str = "") -> None:
        """Sets a value. stamp: a hash of its sources, if `key` alone does not name them."""
        with self._lock:
            self._rows[key] = (stamp, json.dumps(value, ensure_ascii=False, separators=(",", ":")))
            self._changed_keys.add(key)

    def save(self) -> None:
        """Writes the changes in one transaction; a failure is only logged."""
        if self._changed_keys:
            self._transact("rwc", self._write)

    def _read(self, table: sqlite3.Connection) -> None:
        query = "SELECT key, stamp, value, checksum FROM facts WHERE namespace = ?"
        for key, stamp, text, checksum in table.execute(query, (self.namespace,)):
            if checksum != self._checksum(key, stamp, text):
                raise sqlite3.DatabaseError(f"the checksum of {key!r} does not match")
            self._rows[key] = (stamp, text)

    def _write(self, table: sqlite3.Connection) -> None:
        with self._lock:
            changed = [(key, *self._rows[key]) for key in self._changed_keys]
            self._changed_keys.clear()
        rows = [(self.namespace, *row, self._checksum(*row)) for row in changed]
        table.execute(_CREATE_TABLE)
        table.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?, ?, ?, ?)", rows)

    def _checksum(self, key: str, stamp: str, text: str) -> int:
        return zlib.crc32("\0".join((self.namespace, key, stamp, text)).encode())

    def _transact(self, mode: str, work: Callable[[sqlite3.Connection], None]) -> None:
        """Runs `work` in one transaction. Errors are logged, and a damaged table is deleted."""
        try:
            if mode == "rwc":
                self.path.parent.mkdir(parents=True, exist_ok=True)
            uri = f"{self.path.absolute().as_uri()}?mode={mode}"
            connection = sqlite3.connect(uri, timeout=_BUSY_SECONDS, uri=True)
            with contextlib.closing(connection), connection:
                work(connection)
        except (sqlite3.OperationalError, OSError) as error:
            warning = "%s cannot be used; its values are computed again. %s"
            log.log(self._log_level, warning, self.path, error)
        except (sqlite3.DatabaseError, UnicodeError, TypeError) as error:
            log.log(self._log_level, "%s is damaged and will be rebuilt (%s).", self.path, error)
            with contextlib.suppress(OSError):
                self.path.unlink(missing_ok=True)


def cache_folder(environ: Mapping[str, str]) -> Path:
    """The user's cache folder; in a container it is lost with the container."""
    base = Path(environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or "~") / ".cache")
    with contextlib.suppress(RuntimeError):  # a user without a home
        base = base.expanduser()
    return base / "sotaque"
