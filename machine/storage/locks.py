"""One trainer in a run folder at a time: a lock that ends with its process, even under kill -9."""

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

from machine.errors import SotaqueError
from machine.storage.atomic import STALE_SECONDS, WriteError, remove_stale
from xtts.hub.run_folder import RunFolder

log = logging.getLogger(__name__)

# A forked child shares its parent's lock and would keep it: so it closes these first.
_held: set[int] = set()
_NO_LOCKS_HERE = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
# Whoever asks `held` has the lock himself for some microseconds: no reason to refuse a trainer.
_ASKED_SECONDS = 0.5


class RunLocked(SotaqueError):
    """Another trainer works in this folder; the sentence names its process."""


@contextmanager
def lock(run: RunFolder) -> Iterator[None]:
    """Holds the run for this process, and clears what killed writers left in it.

    Raises RunLocked when another trainer has it, WriteError when the folder cannot be written.
    """
    _close_in_children()
    descriptor = _open(run.lock_file)
    _held.add(descriptor)
    try:
        _take(descriptor, run.folder)
        with contextlib.suppress(OSError):  # a full disk: the name is for people, the lock holds
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        left = [
            path
            for folder in (run.folder, run.checkpoints, run.samples)
            for path in remove_stale(folder)
        ]
        # `train sample` writes there without the lock: it may be at it.
        left += remove_stale(run.samples_on_demand, older_than_seconds=STALE_SECONDS)
        for path in left:
            log.info("Removed %s, left by a run that was killed while writing.", path.name)
        yield
    finally:
        _held.discard(descriptor)
        os.close(descriptor)


def held(run: RunFolder) -> bool | None:
    """Whether a trainer is at work in this folder, in whatever container of this machine; None
    where the file system has no locks. Reads only."""
    try:
        descriptor = os.open(run.lock_file, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return None
    try:
        # Shared: who asks at the same time is not taken for a trainer.
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
    _close_in_children()
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise WriteError(
            f"{path.parent} cannot be written ({error.strerror}). Make it writable for this user, "
            "or name another folder."
        ) from error
    _held.add(descriptor)
    try:
        _wait(descriptor, waiting)
        yield
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


def _open(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # O_CLOEXEC: a child that is executed never has it.
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise WriteError(
            f"OUTPUT_DIR={path.parent} cannot be written ({error.strerror}). Make it writable for "
            "this user, or set OUTPUT_DIR to another folder."
        ) from error


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
            raise RunLocked(
                f"Another trainer (process {owner}) is working in OUTPUT_DIR={folder}. "
                "Wait for it or stop it, or set OUTPUT_DIR to another folder."
            ) from None
        except OSError as error:
            if error.errno not in _NO_LOCKS_HERE:
                raise
            why = error.strerror
            log.warning("%s has no file locks (%s): start no second trainer.", folder, why)
            return None


@cache
def _close_in_children() -> None:
    os.register_at_fork(after_in_child=_let_go)


def _let_go() -> None:
    for descriptor in _held:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    _held.clear()
