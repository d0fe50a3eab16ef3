"""Listeners of /events: one that does not read, and one that leaves."""

import asyncio
import json

from api import events
from api.events import MAX_LISTENERS, Events


async def heard(listener, count: int) -> list[dict[str, int]]:
    """The data of the next events; the first block only names the time to reconnect."""
    blocks = [(await anext(listener)).decode() for _ in range(count)]
    return [json.loads(block.split("data: ")[1]) for block in blocks if "data: " in block]


def test_a_listener_that_does_not_read_loses_the_oldest_events(monkeypatch):
    monkeypatch.setattr(events, "_MAX_WAITING_EVENTS", 3)

    async def listen() -> list[dict[str, int]]:
        service = Events()
        listener = await service.listen([("first", {"n": -1})])
        for number in range(10):
            service.tell("step", {"n": number})
        return await heard(listener, 5)

    assert [event["n"] for event in asyncio.run(listen())] == [-1, 7, 8, 9]


def test_a_listener_that_leaves_frees_its_place():
    async def come_and_go() -> int:
        service = Events()
        for _ in range(MAX_LISTENERS + 1):
            listener = await service.listen([])
            await anext(listener)
            await listener.aclose()
        return len(service.listeners)

    assert asyncio.run(come_and_go()) == 0
