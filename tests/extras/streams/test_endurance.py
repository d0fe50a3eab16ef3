"""Hundreds of interruptions, and minutes of turns with the embedded voice: no slot is lost.

Slow: STREAMS_SOAK is the number of seconds, ten minutes by default.
"""

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from tests.api.conftest import QUICK, Running, running, settings_in
from tests.extras.streams.conftest import MULTI, Heard, is_idle, line

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
INTERRUPTIONS = 200
SOAK_SECONDS = float(os.environ.get("STREAMS_SOAK", "600"))
FREE_SECONDS = 0.5
LONG = "If you ask me, we should leave at nine. " * 20
TURN = "If you ask me, we should leave at nine. Then we have time for lunch."
CLIENTS = 3


def freed_after(service: Running, started: float) -> float:
    service.wait_until(lambda: is_idle(service), 20)
    return time.monotonic() - started


def interrupt(service: Running, way: str) -> float:
    """Interrupts speech; returns the seconds until the slot is free."""
    with line(service, MULTI) as client:
        client.send(text=LONG, context_id="c")
        assert client.read()["audio"]
        started = time.monotonic()
        if way != "leaves":
            client.send(context_id="c", **{way: True})
            client.heard("c")
            return freed_after(service, started)
    return freed_after(service, started)


def test_interruptions_free_their_slots(service):
    ways = ("leaves", "close_context", "close_socket")
    seconds = sorted(interrupt(service, ways[number % 3]) for number in range(INTERRUPTIONS))
    median = seconds[INTERRUPTIONS // 2]
    print(f"{INTERRUPTIONS} interruptions: free after {median:.3f} s (median), at most {seconds[-1]:.3f} s")
    assert seconds[-1] < FREE_SECONDS and service.status()["queue"]["speaking"] == 0


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    limits = replace(QUICK, queue=32, deadline_seconds=300.0, hang_seconds=120.0)
    with running(settings_in(tmp_path_factory.mktemp("soak")), limits=limits, threads=1) as opened:
        yield opened


def turn(service: Running) -> Heard:
    """One turn, word by word, on a new connection."""
    with line(service, MULTI) as client:
        for word in TURN.split():
            client.send(text=f"{word} ", context_id="c")
            time.sleep(0.05)
        client.send(context_id="c", flush=True)
        client.send(context_id="c", close_context=True)
        return client.heard("c")


def test_minutes_of_turns_and_interruptions(demo):
    """Each turn is heard whole, with its words, while others are interrupted."""
    end = time.monotonic() + SOAK_SECONDS

    def client(number: int) -> tuple[int, int]:
        turns = interruptions = 0
        while time.monotonic() < end:
            if number == 0:
                with line(demo, MULTI) as one:
                    one.send(text=LONG, context_id="c")
                    assert one.read()["audio"]
                interruptions += 1
            else:
                assert turn(demo).characters.split() == TURN.split()
                turns += 1
        return turns, interruptions

    with ThreadPoolExecutor(CLIENTS) as pool:
        counts = list(pool.map(client, range(CLIENTS)))
    turns, interruptions = (sum(column) for column in zip(*counts, strict=True))
    freed = freed_after(demo, time.monotonic())
    print(f"{SOAK_SECONDS:g} s: {turns} turns, {interruptions} interruptions, slots free after {freed:.2f} s")
    assert turns and interruptions and freed < FREE_SECONDS
    assert demo.state.engine.history.restarts == 0
