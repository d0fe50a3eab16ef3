"""A folder that replicas share: one change after another, and 507 for what cannot be kept."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from api.errors import APIError, without_paths
from machine.storage import locks
from machine.storage.atomic import WriteError, make_folder, refused

LOCK = ".lock"


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
