"""One process writes a run at a time, whatever ends the others."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from machine.storage import files
from xtts.voices.run_folder import RunError, RunFolder
from xtts.voices.run_lock import lock


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path / "output")
    folder.checkpoints.mkdir(parents=True)
    return folder


HOLD = (
    "import sys, time; from pathlib import Path\n"
    "from xtts.voices.run_folder import RunFolder\n"
    "from xtts.voices.run_lock import lock\n"
    "with lock(RunFolder(Path(sys.argv[1]))): print('held', flush=True); sys.stdin.read()"
)


def holder(run: RunFolder) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(run.folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_trainer_is_refused_by_the_first_ones_number(run):
    assert run.is_locked() is False
    process = holder(run)
    assert run.is_locked() is True
    with pytest.raises(RunError, match=f"process {process.pid}") as raised, lock(run):
        pass
    assert raised.value.exit_code == 2
    process.kill()
    process.communicate()  # also closes the pipes
    assert run.lock_file.read_text() == f"{process.pid}\n" and run.is_locked() is False
    with lock(run):
        assert run.lock_file.read_text() == f"{os.getpid()}\n"


def test_who_asks_keeps_no_trainer_out(run):
    """The reader holds the lock for a moment."""
    asking = (
        "import fcntl, os, sys, time; file = os.open(sys.argv[1], os.O_RDONLY)\n"
        "fcntl.flock(file, fcntl.LOCK_SH); print('asks', flush=True); time.sleep(0.1)"
    )
    run.lock_file.touch()
    with subprocess.Popen(
        [sys.executable, "-c", asking, str(run.lock_file)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "asks\n"
        assert run.is_locked() is False
        with lock(run):
            assert run.is_locked() is True


def test_children_inherit_no_lock(run):
    """When its trainer leaves a run, no forked or executed child keeps it locked."""
    told, tells = os.pipe()
    with lock(run):
        child = os.fork()
        if not child:
            os.write(tells, b"!")  # after the handlers of the fork
            time.sleep(60)
            os._exit(0)
        assert os.read(told, 1) == b"!"
        executed = subprocess.Popen(["sleep", "60"], close_fds=False)
    try:
        with lock(run):
            pass
    finally:
        for number in (child, executed.pid):
            os.kill(number, 9)
        os.waitpid(child, 0)
        executed.wait()


def test_only_the_holder_clears_what_killed_writers_left(run):
    left = run.checkpoints / ".checkpoint_epoch_4.pt.99.sotaque-part"
    other = run.checkpoints / ".checkpoint_epoch_4.pt.99.tmp"
    for path in (left, other):
        path.write_bytes(b"half")
    process = holder(run)
    assert not left.exists()
    left.write_bytes(b"being written")
    with pytest.raises(RunError), lock(run):
        pass
    assert left.exists()
    process.communicate()
    with lock(run):
        assert not left.exists()
    assert other.exists()


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(files.WriteError, match="OUTPUT_DIR="), lock(RunFolder(tmp_path / "file/x")):
        pass
