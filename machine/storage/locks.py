"""File locks, held by one process and released with it, even by kill -9."""

import contextlib
import errno
import fcntl
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from machine.storage.atomic import WriteError

log = logging.getLogger(__name__)

# A forked child shares its parent's lock and would keep it: so it closes these first.
_held: set[int] = set()
_NO_LOCKS_HERE = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
# Whoever asks `held` has the lock himself for some microseconds: no reason to refuse another.
_ASKED_SECONDS = 0.5


class LockHeld(Exception):
    """Another process holds the lock; the text is its number, or "unknown"."""


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Holds the lock file `path`, with this process's number in it.

    Raises:
        LockHeld: Another process holds it.
        OSError: It cannot be opened.
    """
    # O_CLOEXEC: a child that is executed never has it.
    with _opened(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)) as descriptor:
        _take(descriptor, path.parent)
        with contextlib.suppress(OSError):  # a full disk: the name is for people, the lock holds
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield


def held(path: Path) -> bool | None:
    """Whether a process holds it, in whatever container of this machine; None where the file
    system has no locks. Reads only."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return None
    try:
        # Shared: who asks at the same time is not taken for a holder.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return False


@contextmanager
def wait_for(path: Path, waiting: Callable[[], object]) -> Iterator[None]:
    """Holds the lock file `path`, once whoever has it has let go; `waiting` is called meanwhile.

    Where a file system has no locks, nobody is waited for. Raises WriteError.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise WriteError(
            f"{path.parent} cannot be written ({error.strerror}). Make it writable for this user, "
            "or name another folder."
        ) from error
    with _opened(descriptor):
        _wait(descriptor, waiting)
        yield


@contextmanager
def _opened(descriptor: int) -> Iterator[int]:
    _close_in_children()
    _held.add(descriptor)
    try:
        yield descriptor
    finally:
        _held.discard(descriptor)
        os.close(descriptor)


def _wait(descriptor: int, waiting: Callable[[], object]) -> None:
    told = False
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not told:
                waiting()
            told = True
            time.sleep(0.2)
        except OSError as error:
            if error.errno not in _NO_LOCKS_HERE:
                raise
            return None


def _take(descriptor: int, folder: Path) -> None:
    end = time.monotonic() + _ASKED_SECONDS
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() < end:
                time.sleep(0.02)
                continue
            owner = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            raise LockHeld(owner) from None
        except OSError as error:
            if error.errno not in _NO_LOCKS_HERE:
                raise
            log.warning("%s has no file locks (%s): start no second one.", folder, error.strerror)
            return None


@cache
def _close_in_children() -> None:
    os.register_at_fork(after_in_child=_let_go)


def _let_go() -> None:
    for descriptor in _held:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    _held.clear()
