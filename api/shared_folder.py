"""Writes to a folder that several replicas share: one change at a time, HTTP 507 if it fails.

Also reads dataclasses from the folder's JSON files, and makes their timestamps.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from api.errors import APIError, without_paths
from machine.storage import locks
from machine.storage.files import WriteError, make_folder, read_json, writing_to

LOCK = ".lock"


Record = TypeVar("Record")


@contextmanager
def changing(folder: Path) -> Iterator[None]:
    """Holds the lock of `folder`, which is created if it is missing. Blocks; must not be nested.

    Read the state again inside: another replica may have changed it.

    Raises:
        APIError: 507 if the code inside cannot write or delete a file.
    """
    with writing(folder):
        make_folder(folder)
        with locks.wait_for(folder / LOCK, lambda: None):
            yield


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Raises APIError (507) if the code inside cannot write or delete a file below `folder`."""
    try:
        with writing_to(folder / LOCK):
            yield
    except WriteError as error:
        raise APIError(507, "not_kept", without_paths(str(error))) from error


def read(make: Callable[..., Record], path: Path, identity: str) -> Record | None:
    """The record that `make` builds from the fields of a JSON file; None if the file is missing,
    has other fields, or belongs to another id."""
    fields = read_json(path)
    with contextlib.suppress(ValueError, TypeError):
        return make(**fields) if fields.get("id") == identity else None
    return None


def read_all(folder: Path, get: Callable[[str], Record | None], ending: str = "") -> Iterator[Record]:
    """The record that `get` finds for each file name in `folder`, given without its `ending`."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            record = get(name.removesuffix(ending)) if name.endswith(ending) else None
            if record is not None:
                yield record


def now() -> str:
    """The current time in ISO 8601, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
