"""File locks, held by one process and released when it ends, even by kill -9.

They use `filelock` (flock, closed in forked children). This module adds error messages, the
behaviour on a file system without locks, and `is_held`, which reads without writing.
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

from machine.storage.files import WriteError

log = logging.getLogger(__name__)

_NO_LOCKS_ERRNOS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
# `is_held` takes the lock for some microseconds, which must not refuse another process.
_ACQUIRE_SECONDS = 0.5


class LockHeld(Exception):
    """Another process holds the lock; the text is its process ID, or "unknown"."""


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Holds the lock file `path`, which contains this process's ID.

    Raises:
        LockHeld: Another process holds it.
        OSError: The file cannot be opened.
    """
    lock = _lock_file(path, on_acquired=_write_owner)
    try:
        lock.acquire(timeout=_ACQUIRE_SECONDS, poll_interval=0.02)
    except Timeout:
        raise LockHeld(_owner(path)) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS_ERRNOS:
            raise
        log.warning(
            "%s does not support file locks (%s): do not start a second process there.",
            path.parent,
            error.strerror,
        )
    try:
        yield
    finally:
        lock.release()


def is_held(path: Path) -> bool | None:
    """Whether a process holds the lock, in any container of this machine; None if the file system
    does not support locks. Does not write."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return None
    try:
        # A shared lock, so that two readers do not take each other for the holder.
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
    path: Path, on_wait: Callable[[], object] = lambda: None, *, limit_seconds: float = -1
) -> Iterator[None]:
    """Waits for the lock file `path` and holds it.

    On a file system without locks it does not wait. After the limit it continues without the lock.

    Args:
        path: The lock file.
        on_wait: Called once if it has to wait.
        limit_seconds: The longest wait; -1 waits without a limit.

    Raises:
        WriteError: The lock file cannot be opened.
    """
    lock = _lock_file(path)
    try:
        try:
            lock.acquire(blocking=False)
        except Timeout:
            on_wait()
            with contextlib.suppress(Timeout):
                lock.acquire(timeout=limit_seconds, poll_interval=0.2)
    except OSError as error:
        if error.errno not in _NO_LOCKS_ERRNOS:
            raise WriteError(
                f"{path.parent} cannot be written ({error.strerror}). Make it writable for this "
                "user, or name another folder."
            ) from error
    try:
        yield
    finally:
        lock.release()


def _lock_file(path: Path, on_acquired: Callable[[int], None] | None = None) -> FileLock:
    # A soft lock, which is just a file, would survive a killed process.
    return FileLock(path, fallback_to_soft=False, thread_local=False, on_acquired=on_acquired)


def _write_owner(descriptor: int) -> None:
    with contextlib.suppress(OSError):  # on a full disk the lock still holds, without the ID
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)


def _owner(path: Path) -> str:
    try:
        return path.read_text(errors="replace")[:32].strip() or "unknown"
    except OSError:
        return "unknown"
