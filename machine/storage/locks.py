"""File locks, held by one process and released with it, even by kill -9.

`filelock` holds them (flock, closed in forked children). Ours: what a refusal says, what happens on
a file system without locks, and `held`, which asks without writing.
"""

import contextlib
import errno
import fcntl
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from machine.storage.atomic import WriteError

log = logging.getLogger(__name__)

_NO_LOCKS_HERE = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
# `held` takes the lock itself for some microseconds: no reason to refuse another process.
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
    lock = _lock_file(path, on_acquired=_write_owner)
    try:
        lock.acquire(timeout=_ASKED_SECONDS, poll_interval=0.02)
    except Timeout:
        raise LockHeld(_owner(path)) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS_HERE:
            raise
        log.warning("%s has no file locks (%s): start no second one.", path.parent, error.strerror)
    try:
        yield
    finally:
        lock.release()


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
def wait_for(
    path: Path, waiting: Callable[[], object] = lambda: None, *, limit_seconds: float = -1
) -> Iterator[None]:
    """Holds the lock file `path`, once whoever has it has let go; `waiting` is called meanwhile.

    Where a file system has no locks it does not wait, and past the limit (-1: none) no longer.

    Raises:
        WriteError: The lock file cannot be opened.
    """
    lock = _lock_file(path)
    try:
        try:
            lock.acquire(blocking=False)
        except Timeout:
            waiting()
            with contextlib.suppress(Timeout):
                lock.acquire(timeout=limit_seconds, poll_interval=0.2)
    except OSError as error:
        if error.errno not in _NO_LOCKS_HERE:
            raise WriteError(
                f"{path.parent} cannot be written ({error.strerror}). Make it writable for this "
                "user, or name another folder."
            ) from error
    try:
        yield
    finally:
        lock.release()


def _lock_file(path: Path, on_acquired: Callable[[int], None] | None = None) -> FileLock:
    # A soft lock, a file that is there or not, would outlive a process that is killed.
    return FileLock(path, fallback_to_soft=False, thread_local=False, on_acquired=on_acquired)


def _write_owner(descriptor: int) -> None:
    with contextlib.suppress(OSError):  # a full disk: the name is for people, the lock holds
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)


def _owner(path: Path) -> str:
    try:
        return path.read_text(errors="replace")[:32].strip() or "unknown"
    except OSError:
        return "unknown"
