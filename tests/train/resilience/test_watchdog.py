"""A trainer that hangs in any way is ended after a stack trace; others are left alone."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.xtts.workers.test_file_worker import gone


class Run:
    """A run of `tests.train.resilience.hanging` with its watchdog, after the fourth step."""

    def __init__(self, kind: str, stall_seconds: float) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.train.resilience.hanging", kind, str(stall_seconds)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        self.watchdog = int(self.process.stdout.readline())
        while not self._is_ready():  # on a busy machine it has not started yet
            time.sleep(0.01)

    def _is_ready(self) -> bool:
        """Whether the watchdog has set up its signals, and its end with the trainer."""
        try:
            status = Path(f"/proc/{self.watchdog}/status").read_text()
        except OSError:  # its trainer has ended
            return True
        words = dict(line.split(":\t") for line in status.splitlines())
        return words["State"][0] == "Z" or bool(int(words["SigIgn"], 16) & 1 << signal.SIGTERM - 1)

    def hangs(self) -> None:
        """Waits until it hangs, which may take longer on a busy machine."""
        asleep = 0
        while asleep < 10:
            state = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
            asleep = asleep + 1 if state == "S" else 0
            time.sleep(0.01)

    def end(self) -> tuple[int, str]:
        """(exit code, standard error)"""
        _, told = self.process.communicate(timeout=60)
        return self.process.returncode, told


@pytest.fixture
def start() -> Iterator[Callable[[str, float], Run]]:
    started: list[Run] = []

    def one(kind: str, stall_seconds: float = 0.5) -> Run:
        started.append(Run(kind, stall_seconds))
        return started[-1]

    yield one
    for run in started:
        if run.process.poll() is None:
            os.killpg(run.process.pid, signal.SIGKILL)
        run.process.communicate()


@pytest.mark.parametrize(
    ("kind", "ended", "number"),
    [
        ("a_lock_that_never_comes", 75, "75"),
        ("deadlock_with_the_gil", -signal.SIGKILL, "137"),
        ("sleep_with_the_gil", 75, "75"),
    ],
)
def test_a_hang_is_told_with_its_place_and_ended(start, kind, ended, number):
    run = start(kind)
    code, told = run.end()
    assert code == ended
    assert re.search(r"No heartbeat came from the training for [\d.]+ s while learning\.", told)
    assert "most recent call first" in told and f"in {kind}" in told
    assert f"exit code {number}" in told
    assert gone(run.watchdog)


def test_a_stopped_one_is_killed_and_not_asked(start):
    """If woken to dump its stacks, it would run while they are read, which once crashed it."""
    run = start("stopped")
    code, told = run.end()
    assert code == -signal.SIGKILL
    assert gone(run.watchdog)
    assert "(SIGSTOP)." in told and "exit code 137" in told
    assert "most recent call first" not in told


def test_one_that_takes_no_signal_is_ended_as_well(start):
    assert start("deaf").end()[0] == -signal.SIGKILL


@pytest.mark.parametrize("kind", ["none", "slow", "saving"])
def test_a_trainer_that_lives_is_left_alone(start, kind):
    """Usual steps, a slow step, and a checkpoint that takes long."""
    run = start(kind)
    code, told = run.end()
    assert (code, told) == (0, "")
    assert gone(run.watchdog)


@pytest.mark.parametrize("stopped", [False, True])
def test_it_ends_with_a_trainer_that_is_killed(start, stopped):
    """Even while the watchdog is stopped."""
    run = start("a_lock_that_never_comes", 60.0)
    if stopped:
        os.kill(run.watchdog, signal.SIGSTOP)
    run.process.kill()
    run.process.wait()
    assert gone(run.watchdog)


@pytest.mark.slow
def test_ctrl_z_is_no_hang(start):
    """The terminal stops and resumes trainer and watchdog together."""
    run = start("going_on")
    os.killpg(run.process.pid, signal.SIGSTOP)
    time.sleep(1.5)
    os.killpg(run.process.pid, signal.SIGCONT)
    assert run.end() == (0, "")


def test_ctrl_c_is_for_the_trainer(start):
    """The terminal sends it to both; the watchdog ignores it and still watches a trainer that
    saves."""
    run = start("a_lock_that_never_comes")
    os.kill(run.watchdog, signal.SIGINT)
    os.kill(run.watchdog, signal.SIGTERM)
    assert run.end()[0] == 75
