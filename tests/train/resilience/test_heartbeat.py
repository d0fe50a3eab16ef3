"""How long the next sign of life may take, and the messages to the watchdog."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.xtts.workers.test_file_worker import open_files
from train.resilience.heartbeat import Heartbeat, allowed_seconds


@pytest.mark.parametrize(
    ("steps", "allowed"),
    [
        ([], 1200),  # the first steps compile and read cold files
        ([200, 300], 1200),
        ([0.5, 0.4, 0.6], 120),
        ([20, 30, 25], 250),
        ([20, 30, 25, 4000], 275),  # one that hung for a while does not count as usual
    ],
)
def test_ten_times_the_usual_step_and_never_less_than_the_setting(steps, allowed):
    assert allowed_seconds(steps, 120) == allowed


@pytest.fixture
def heard() -> Iterator[tuple[Heartbeat, int]]:
    """A heartbeat, and a pipe with its lines instead of a watchdog."""
    beating = Heartbeat(2.0)
    read_end, beating._beats = os.pipe()
    os.set_blocking(beating._beats, False)
    yield beating, read_end
    os.close(read_end)
    if beating._beats is not None:
        os.close(beating._beats)


def lines(read_end: int) -> list[str]:
    return os.read(read_end, 65536).decode().splitlines()


def test_a_sign_at_each_item_and_at_both_ends_of_a_leave(heard):
    beating, read_end = heard
    assert list(beating.watch(range(4), "learning")) == [0, 1, 2, 3]
    assert lines(read_end) == [
        "20.000 learning",
        "20.000 learning",
        "20.000 learning",
        "2.000 learning",
        "2.000 learning",
        "2.000 learning ended",
    ]
    assert list(beating.watch(range(1), "learning")) == [0]
    assert lines(read_end)[0] == "2.000 learning"  # the next epoch knows the usual duration
    with beating.allow(1800, "writing a checkpoint"):
        assert lines(read_end) == ["1800.000 writing a checkpoint"]
    assert lines(read_end) == ["2.000 writing a checkpoint ended"]


def test_a_watchdog_that_does_not_read_holds_nobody_up(heard):
    beating, read_end = heard
    assert sum(1 for _ in beating.watch(range(20_000), "learning")) == 20_000
    assert 60_000 < len(os.read(read_end, 1 << 20)) <= 1 << 16


def test_a_watchdog_that_has_died_is_told_once(caplog):
    with Heartbeat(60.0) as beating:
        os.kill(beating._child.pid, 9)
        beating._child.wait()
        assert list(beating.watch(range(3), "learning")) == [0, 1, 2]
    told = [message for message in caplog.messages if "watchdog has ended" in message]
    assert len(told) == 1


def test_its_end_leaves_no_process_and_inherits_nothing_else(tmp_path):
    with (tmp_path / ".lock").open("w"), Heartbeat(60.0) as beating:
        pid = beating._child.pid
        held = open_files(pid)
        assert not any("lock" in name or "socket" in name for name in held)
    assert not Path(f"/proc/{pid}").exists()
    assert list(Heartbeat(60.0).watch(range(3), "learning")) == [0, 1, 2]
