"""Signals: the handler does nothing, and the time left decides the rest."""

import os
import signal
import time

import pytest

from train.resilience import stopping
from train.resilience.stopping import SIGNALS, StopRequest, stop_on_signals


class Left(Exception):
    """The process would have ended."""


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str]]:
    told: list[tuple[int, str]] = []

    def leave(code: int, sentence: str) -> None:
        told.append((code, sentence))
        raise Left

    monkeypatch.setattr(stopping, "_exit", leave)
    return told


def stop(**known: float) -> StopRequest:
    found = StopRequest(8.0, has_state=True)
    for name, value in known.items():
        setattr(found, name, value)
    return found


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)]
)
def test_the_first_signal_asks_and_the_second_exits_at_once(left, number, code):
    found = stop(step_seconds=2.0, write_seconds=6.0)
    assert not found.requested
    found.receive(number)
    assert found.requested and found.exit_code == code and not left
    with pytest.raises(Left):
        found.receive(signal.SIGINT)
    assert left[0][0] == 130 and "Second signal" in left[0][1]


@pytest.mark.parametrize(
    ("known", "words"),
    [
        ({"has_state": False}, "nothing to save"),
        ({"step_seconds": 4.0, "write_seconds": 4.1}, "do not fit into STOP_SECONDS=8"),
    ],
)
def test_where_nothing_can_or_need_be_saved_it_exits_at_once(left, known, words):
    with pytest.raises(Left):
        stop(**known).receive(signal.SIGTERM)
    assert left[0][0] == 143 and words in left[0][1]


def test_a_terminal_that_closes_may_say_so_twice(left):
    found = stop()
    found.receive(signal.SIGHUP)
    found.receive(signal.SIGHUP)
    assert found.exit_code == 129 and not left


def test_after_nohup_a_terminal_may_close(monkeypatch):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_on_signals(8.0) as found:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not found.requested and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_the_handler_does_nothing():
    """It may run inside a write or while a stream is locked: no I/O, no locks, no name lookups."""
    with stop_on_signals(8.0) as found:
        # After `nohup`, SIGHUP has no handler.
        for handler in filter(callable, map(signal.getsignal, SIGNALS)):
            code = handler.__code__
            assert code.co_names == () and code.co_consts in ((None,), ())
        found.has_state = True
        os.kill(os.getpid(), signal.SIGTERM)
        end = time.monotonic() + 5
        while not found.requested and time.monotonic() < end:
            time.sleep(0.005)
        assert found.exit_code == 143


def test_what_was_there_before_is_there_again():
    before = [signal.getsignal(number) for number in SIGNALS]
    with stop_on_signals(8.0):
        pass
    assert [signal.getsignal(number) for number in SIGNALS] == before
