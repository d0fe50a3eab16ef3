"""Locks: file systems without them, a deleted lock file, and the refusal's message."""

import errno
import fcntl
import os
import subprocess
import sys
import threading
import time

import pytest

from machine.storage import locks
from machine.storage.files import WriteError

HOLD = (
    "import sys; from pathlib import Path; from machine.storage import locks\n"
    "with locks.wait_for(Path(sys.argv[1]), list): print('held', flush=True); sys.stdin.read()"
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / ".lock"


@pytest.fixture(params=[errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def no_locks(request, monkeypatch):
    def none_here(*_):
        raise OSError(request.param, os.strerror(request.param))

    monkeypatch.setattr(fcntl, "flock", none_here)


def test_a_file_system_without_locks_is_told_and_refuses_nobody(path, no_locks, caplog):
    with locks.exclusive(path), locks.exclusive(path):
        assert "does not support file locks" in caplog.text
        assert locks.is_held(path) is None
    with locks.wait_for(path, pytest.fail):
        pass
    # Nothing remains that would block the next process after this one is killed.
    with locks.exclusive(path):
        pass


def test_a_lock_with_no_number_in_it_is_held_by_somebody_unknown(path):
    with locks.wait_for(path, list), pytest.raises(locks.LockHeld, match="unknown"), locks.exclusive(path):
        pass


def test_whoever_waits_gets_the_lock_of_a_process_that_was_killed(path):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    calls = []

    def kill() -> None:
        calls.append("waiting")
        threading.Timer(0.3, process.kill).start()

    begun = time.monotonic()
    with locks.wait_for(path, kill):
        assert calls == ["waiting"]
        assert time.monotonic() - begun > 0.2
    process.communicate()


def test_a_deleted_lock_file_locks_no_more(path):
    """A process that opens the name later gets another file, so neither would see the other."""
    with locks.exclusive(path):
        path.unlink()
        with locks.exclusive(path):
            assert locks.is_held(path) is True


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(WriteError, match="file cannot be written"),
        locks.wait_for(tmp_path / "file" / ".lock", list),
    ):
        pass
