"""A slow reader: its answer waits, and the memory for it is bounded."""

import asyncio
import contextlib
import socket
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from api.http.connections import BoundedProtocol, ConnectionLimits, Connections
from tests.api.raw import request

CHUNK = bytes(64 * 1024)
CHUNKS = 64
# asyncio pauses a protocol above 64 KiB; it keeps all of the chunk that exceeds the limit.
MAX_HELD = 3 * len(CHUNK)


@dataclass
class Answer:
    """An application that answers in many chunks; `ended` is set once it has sent them."""

    sent: int = 0
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(CHUNKS):
            await send({"type": "http.response.body", "body": CHUNK, "more_body": True})
            self.sent += 1
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        self.ended.set()


@contextlib.asynccontextmanager
async def asked(answer: Answer, limits: ConnectionLimits) -> Any:
    """(protocol, the client's socket) after a request whose answer the client has not read."""
    loop = asyncio.get_running_loop()
    kind = Connections(limits).protocol()
    config = uvicorn.Config(answer, http="h11", ws="none", log_config=None)
    config.load()
    ours, client = socket.socketpair()
    for end in (ours, client):
        end.setblocking(False)
    made = lambda: kind(config, ServerState(), {})  # noqa: E731
    transport, protocol = await loop.connect_accepted_socket(made, ours)
    try:
        await loop.sock_sendall(client, request("GET /"))
        yield protocol, client
    finally:
        transport.abort()
        client.close()
        await asyncio.sleep(0)


async def settled(answer: Answer, protocol: BoundedProtocol) -> None:
    """Waits until the answer is paused or complete, however slow the machine is."""
    while not answer.ended.is_set() and not (protocol.flow and protocol.flow.write_paused):
        await asyncio.sleep(0)


def test_an_answer_waits_for_a_client_that_reads_nothing_and_goes_to_its_end():
    async def slow() -> None:
        answer = Answer()
        async with asked(answer, ConnectionLimits(stall_seconds=3600)) as (protocol, client):
            await settled(answer, protocol)
            sent = answer.sent
            assert protocol.transport.get_write_buffer_size() <= MAX_HELD
            for _ in range(100):
                await asyncio.sleep(0)
            assert answer.sent == sent < CHUNKS and not answer.ended.is_set()
            timer = protocol._stall_timer
            assert timer is not None and not timer.cancelled()

            loop, read = asyncio.get_running_loop(), 0
            while not answer.ended.is_set():
                read += len(await loop.sock_recv(client, len(CHUNK)))
                assert protocol.transport.get_write_buffer_size() <= MAX_HELD
            assert answer.sent == CHUNKS and read > sent * len(CHUNK) / 2
            while protocol.transport.get_write_buffer_size():
                await loop.sock_recv(client, len(CHUNK))
            # A client that reads again is not closed for the earlier pause.
            assert all(handle.cancelled() for handle in (timer, protocol._stall_timer))
            assert not protocol.transport.is_closing()

    asyncio.run(asyncio.wait_for(slow(), 60))


def test_a_pause_without_end_closes_the_connection():
    async def dropped() -> None:
        answer = Answer()
        async with asked(answer, ConnectionLimits(stall_seconds=0)) as (protocol, _client):
            while not protocol.transport.is_closing():
                await asyncio.sleep(0)
            assert answer.sent < CHUNKS
            assert len(protocol.counted_connections) == 0

    asyncio.run(asyncio.wait_for(dropped(), 60))
