"""The shutdown of the server."""

import asyncio
from types import SimpleNamespace

import uvicorn

from api.http.server import FINISH_SECONDS, Server


class Meeting:
    """A protocol whose close ends once all of them are closing."""

    def __init__(self, barrier: asyncio.Barrier) -> None:
        self.barrier = barrier
        self.seconds = 0.0

    async def start(self) -> None:
        raise AssertionError

    async def close(self, seconds: float) -> None:
        self.seconds = seconds
        await self.barrier.wait()


def test_all_protocols_close_at_once(monkeypatch):
    """One after another, two of them and HTTP would take longer than `docker stop` waits."""

    async def shutdown() -> list[Meeting]:
        barrier = asyncio.Barrier(3)

        async def close_http(*_: object) -> None:
            await barrier.wait()

        monkeypatch.setattr(uvicorn.Server, "shutdown", close_http)
        server = Server(uvicorn.Config("none"))
        engine = SimpleNamespace(close_queue=lambda: None, cut_off=lambda: None)
        server.state = SimpleNamespace(engine=engine, events=SimpleNamespace(close=lambda: None))
        server.listeners = protocols = [Meeting(barrier), Meeting(barrier)]
        await asyncio.wait_for(server.shutdown(), 20)
        return protocols

    assert [protocol.seconds for protocol in asyncio.run(shutdown())] == [FINISH_SECONDS] * 2
