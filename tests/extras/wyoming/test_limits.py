"""Wyoming with many, slow, half-open or eager clients, and after the death of the child."""

import asyncio
import os
import signal
import time
from dataclasses import replace

import pytest
from wyoming.tts import Synthesize, SynthesizeChunk, SynthesizeStart

from api.http.connections import ConnectionLimits
from extras.common.text_stream import MAX_WAITING_CHARACTERS
from extras.wyoming import session
from tests.api.conftest import QUICK
from tests.api.heard import said
from tests.extras.wyoming.conftest import BothPorts, HeardEvents, answered, both, heard, say, send

HI = Synthesize("hi")
PARTIAL = (b"{", b'{"type": "synthesize"', b'{"type": "synthesize", "data_length": 40}\n{"te')


def test_twenty_at_once(ports):
    texts = [f"text number {number}" for number in range(20)]
    assert [found.pcm for found in at_once(ports, texts)] == [said(text) for text in texts]


def at_once(ports: BothPorts, texts: list[str]) -> list[HeardEvents]:
    async def ask() -> list[HeardEvents]:
        return await asyncio.gather(*(answered(ports, Synthesize(text)) for text in texts))

    return asyncio.run(ask())


def test_half_open_connections_harm_nobody(tmp_path):
    """Some send nothing, some stop within an event, some within a text. HTTP's limits close the
    slow and the oldest connections; other clients are answered meanwhile."""
    limits = ConnectionLimits(head_seconds=0.5, max_per_address=20)
    with both(tmp_path, connections=limits) as ports:

        async def hold():
            opened = []
            for number in range(60):
                reader, writer = await asyncio.open_connection("127.0.0.1", ports.port)
                opened.append((reader, writer))
                if number % 3 == 0:
                    writer.write(PARTIAL[number // 3 % 3])
                elif number % 3 == 1:
                    writer.write(b'{"type": "synthesize-start"}\n')
                if number % 10 == 0:
                    assert (await answered(ports, HI)).pcm == said("hi")
            # Within an event: after half a second. The others fit the limit for an address.
            for number in range(0, 60, 3):
                await asyncio.wait_for(opened[number][0].read(), 10)
            assert ports.http.say("hello").status_code == 200
            assert (await answered(ports, HI)).pcm == said("hi")
            for _, writer in opened:
                writer.close()

        asyncio.run(hold())
        for reason in ("slow_event", "too_many"):
            assert ports.http.counted("tts_connections_closed_total", reason=reason)
        ports.http.wait_until(lambda: not list(ports.http.state.engine.requests), 5)


def test_who_goes_away_ends_what_he_asked_for(ports):
    async def leave():
        async with ports.client() as client:
            await send(client, Synthesize("long " * 600))
            for _ in range(3):
                await client.read_event()

    started = time.monotonic()
    asyncio.run(leave())
    ports.http.wait_until(lambda: not list(ports.http.state.engine.requests), 5)
    assert time.monotonic() - started < 5


@pytest.mark.slow
def test_who_reads_nothing_is_let_go(ports, monkeypatch):
    monkeypatch.setattr(session, "_MAX_SEND_SECONDS", 0.3)

    async def ask():
        reader, writer = await asyncio.open_connection("127.0.0.1", ports.port)
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        text = Synthesize(text="long " * 800).event().data["text"]
        for _ in range(16):
            writer.write(b'{"type": "synthesize", "data": {"text": "%s"}}\n' % text.encode())
        await writer.drain()
        end = time.monotonic() + 60
        while not ports.http.counted("tts_connections_closed_total", reason="not_read"):
            assert time.monotonic() < end
            await asyncio.sleep(0.1)
        writer.transport.abort()

    asyncio.run(ask())
    ports.http.wait_until(lambda: not list(ports.http.state.engine.requests), 5)


def test_a_killed_child_is_told_of_and_replaced(tmp_path):
    with both(tmp_path) as ports:

        async def ask():
            async with ports.client() as client:
                await send(client, Synthesize("long " * 200))
                await client.read_event()
                os.kill(ports.http.state.engine.child.pid, signal.SIGKILL)
                found = await asyncio.wait_for(heard(client), 20)
            assert found.ended and found.code == "killed"

        asyncio.run(ask())
        # It waits for the next child, as HTTP requests do.
        assert say(ports, "again").pcm == said("again")
        assert ports.http.state.engine.history.restarts == 1


def test_the_queue_is_the_one_of_http(tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_STEP", "0.05")
    with both(tmp_path) as ports:  # four speak, eight wait
        found = [answer.code or "spoken" for answer in at_once(ports, ["x" * 20] * 20)]
        assert set(found) <= {"spoken", "queue_full"}
        assert 4 <= found.count("spoken") < 20


def test_the_rate_limit_is_the_one_of_http(tmp_path):
    with both(tmp_path, limits=replace(QUICK, requests_per_minute=3)) as ports:
        assert ports.http.say("hi").status_code == 200
        found = [say(ports, "hi").code for _ in range(4)]
        assert found == [None, None, "rate_limited", "rate_limited"]


def test_text_that_waits_is_bounded(ports):
    # Those after the refused one are read too, because unread bytes would reset the connection.
    chunks = [SynthesizeChunk("word " * 800)] * (MAX_WAITING_CHARACTERS // 4000 + 300)
    found = asyncio.run(answered(ports, SynthesizeStart(), *chunks, last="synthesize-stopped"))
    assert found.code == "too_large"


def test_the_service_stops_within_its_time(tmp_path):
    """One client is receiving speech, one has not sent its text yet, one is silent."""
    with both(tmp_path) as ports:

        async def ask():
            async with ports.client() as speaking, ports.client() as waiting, ports.client():
                await send(speaking, Synthesize("short " * 30))
                await send(waiting, SynthesizeStart())
                await speaking.read_event()
                started = time.monotonic()
                ports.http.state.loop.call_soon_threadsafe(ports.stop)
                found = await heard(speaking)
                assert found.code == "closing"
                assert (await heard(waiting)).ended
                return time.monotonic() - started

        assert asyncio.run(ask()) < 8
