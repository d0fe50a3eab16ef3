"""A service with Wyoming and HTTP on free loopback ports, and the protocol's client."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from wyoming.audio import AudioChunk, AudioStart
from wyoming.client import AsyncTcpClient
from wyoming.error import Error
from wyoming.event import Event, Eventable
from wyoming.tts import Synthesize, SynthesizeVoice

from extras.wyoming import listener
from tests.api.conftest import QUICK, Running, running, settings_in
from tests.api.sounds import file_of, speech, upload


@dataclass
class BothPorts:
    """http: the service; port: its Wyoming port."""

    http: Running
    port: int

    def stop(self) -> None:
        """Stops the server as a signal does: in its event loop."""
        self.http.server.should_exit = True

    def client(self) -> AsyncTcpClient:
        return AsyncTcpClient("127.0.0.1", self.port)


@dataclass
class HeardEvents:
    """The events until the sound ended, or the connection: `error` and `ended` say which."""

    pcm: bytes = b""
    kinds: list[str] = field(default_factory=list)
    error: Error | None = None
    ended: bool = False
    last: Event | None = None

    @property
    def code(self) -> str | None:
        return self.error and self.error.code


@contextmanager
def both(
    folder: Path, limits: Any = QUICK, connections: Any = None, threads: Any = None, **more: Any
) -> Iterator[BothPorts]:
    with socket.socket(proto=socket.IPPROTO_TCP) as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        settings = settings_in(folder, wyoming_port=port, **more)
        with running(settings, None, limits, connections, [(listener, [listening])], threads=threads) as http:
            yield BothPorts(http, port)


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BothPorts]:
    """Ready, with the voices Anna and Élodie in addition to the served one."""
    with both(
        tmp_path_factory.mktemp("wyoming"), limits=replace(QUICK, queue=32, deadline_seconds=60.0)
    ) as found:
        for name in ("Anna", "Élodie"):
            assert upload(found.http, file_of(speech()), name=name).status_code == 201
        yield found


async def heard(client: AsyncTcpClient, last: str = "audio-stop") -> HeardEvents:
    """All events up to `last`."""
    found = HeardEvents()
    while (event := await client.read_event()) is not None:
        found.last = event
        if not found.kinds or found.kinds[-1] != event.type:
            found.kinds.append(event.type)
        if AudioStart.is_type(event.type):
            start = AudioStart.from_event(event)
            assert (start.rate, start.width, start.channels) == (24_000, 2, 1)
        elif AudioChunk.is_type(event.type):
            found.pcm += AudioChunk.from_event(event).audio
        elif Error.is_type(event.type):
            found.error = Error.from_event(event)
        if event.type == last:
            return found
    found.ended = True
    return found


async def send(client: AsyncTcpClient, *events: Event | Eventable) -> None:
    for event in events:
        await client.write_event(event if isinstance(event, Event) else event.event())


async def answered(ports: BothPorts, *events: Event | Eventable, last: str = "audio-stop") -> HeardEvents:
    """The answer to these events on a new connection, up to the event `last`."""
    async with ports.client() as client:
        await send(client, *events)
        return await heard(client, last)


def say(ports: BothPorts, text: str, voice: SynthesizeVoice | None = None) -> HeardEvents:
    """Speaks a text on a new connection."""
    return asyncio.run(answered(ports, Synthesize(text=text, voice=voice)))
