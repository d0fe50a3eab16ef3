"""Writes to a folder that several replicas share: one change at a time, HTTP 507 if it fails.

Also reads the dataclasses that the folder's JSON files hold, and makes their ids and times.
"""

import contextlib
import itertools
import os
import re
import unicodedata
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from api.errors import APIError, without_paths
from machine.storage import locks
from machine.storage.atomic import WriteError, make_folder, refused
from machine.storage.reading import read_json

LOCK = ".lock"
ID = re.compile(r"[a-z0-9](-?[a-z0-9]){0,63}")
_LONGEST_SLUG = 40


Record = TypeVar("Record")


@contextmanager
def changing(folder: Path) -> Iterator[None]:
    """Holds the lock of `folder`, which is made where it is missing; waits for it, in a thread.

    What was read before may be another by now: look again inside. Not to be nested.

    Raises:
        APIError: 507 for what cannot be written or deleted inside.
    """
    with kept(folder):
        make_folder(folder)
        with locks.wait_for(folder / LOCK, lambda: None):
            yield


@contextmanager
def kept(folder: Path) -> Iterator[None]:
    """Raises APIError (507) for what cannot be written or deleted inside, in or below `folder`."""
    try:
        with refused(folder / LOCK):
            yield
    except WriteError as error:
        raise APIError(507, "not_kept", without_paths(str(error))) from error


def read(make: Callable[..., Record], path: Path, identity: str) -> Record | None:
    """What `make` makes of the fields of a JSON file; None where there is no such file, it holds
    other fields, or it is of another id."""
    fields = read_json(path)
    with contextlib.suppress(ValueError, TypeError):
        return make(**fields) if fields.get("id") == identity else None
    return None


def read_all(
    folder: Path, get: Callable[[str], Record | None], ending: str = ""
) -> Iterator[Record]:
    """What `get` finds for each name in `folder` with that ending, which it gets without it."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            record = get(name.removesuffix(ending)) if name.endswith(ending) else None
            if record is not None:
                yield record


def free_id(name: str, otherwise: str, taken: Collection[str]) -> str:
    """A name as small letters, digits and single hyphens of ASCII, and with a number where that is
    taken: "Ana, fita 1" -> ana-fita-1, then ana-fita-1-2."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", plain)[:_LONGEST_SLUG].strip("-") or otherwise
    numbered = (f"{slug}-{number}" for number in itertools.count(2))
    return next(one for one in itertools.chain((slug,), numbered) if one not in taken)


def now() -> str:
    """This moment as ISO 8601, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
