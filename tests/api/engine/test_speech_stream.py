"""The sound of a request for a caller who reads slowly or not at all."""

import asyncio
from dataclasses import replace

from api.engine import queue
from api.engine.queue import SpeechStream
from tests.api.conftest import QUICK, running, settings_in
from tests.api.heard import said
from xtts.inference.synthesis_request import SynthesisRequest


def test_a_reader_who_stops_gets_no_turn_until_it_reads(tmp_path, monkeypatch):
    """A bounded amount of its sound waits, and another request takes the slot."""
    monkeypatch.setenv("FAKE_PIECE", "50")
    monkeypatch.setenv("FAKE_STEP", "0.0005")
    monkeypatch.setattr(queue, "_MAX_UNREAD_BYTES", 2 * 50 * 960)
    with running(settings_in(tmp_path), limits=replace(QUICK, slots=1)) as service:
        loop, text = service.state.loop, "s" * 1_000
        assert loop is not None

        async def stalled():
            spoken = service.state.engine.speak(
                SpeechStream(SynthesisRequest(text, "en"), caller="127.0.0.1")
            )
            while not spoken.is_held:
                await asyncio.sleep(0.01)
            return await asyncio.to_thread(service.say, "hello"), spoken

        other, spoken = asyncio.run_coroutine_threadsafe(stalled(), loop).result(30)
        assert other.status_code == 200
        assert spoken.num_bytes == 3 * 50 * 960 and spoken.is_held

        async def read():
            return b"".join([chunk async for chunk in spoken])

        pcm = asyncio.run_coroutine_threadsafe(read(), loop).result(30)
        assert pcm == said(text, 0)
