"""A service with a fake child, and WebSockets to it."""

import base64
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

from tests.api.conftest import PATIENT, Running, running, settings_in

MULTI = "/v1/text-to-speech/default/multi-stream-input?output_format=pcm_24000"
SINGLE = "/v1/text-to-speech/default/stream-input?output_format=pcm_24000"
OMNI = "/v1/audio/speech/stream"
SECONDS = 60.0


@dataclass
class Heard:
    """What a context sounded like. times: the start of each character in seconds. starts_at_zero:
    whether the times of each message do, as pipecat takes them."""

    pcm: bytes = b""
    characters: str = ""
    times: list[float] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)
    arrivals: list[float] = field(default_factory=list)
    starts_at_zero: bool = True
    clock: float = 0.0

    def add(self, message: dict[str, Any]) -> None:
        self.messages.append(message)
        if message.get("audio"):
            self.pcm += base64.b64decode(message["audio"])
            self.arrivals.append(time.monotonic())
        if alignment := message.get("alignment"):
            starts, durations = alignment["charStartTimesMs"], alignment["charDurationsMs"]
            assert len(alignment["chars"]) == len(starts) == len(durations)
            self.characters += "".join(alignment["chars"])
            self.times += [self.clock + start / 1000 for start in starts]
            self.clock += self.starts_at_zero * (starts[-1] + durations[-1]) / 1000

    @property
    def words(self) -> list[tuple[str, float]]:
        """Words with their starts."""
        starts = [
            place
            for place, sign in enumerate(self.characters)
            if not sign.isspace() and (place == 0 or self.characters[place - 1].isspace())
        ]
        return [(self.characters[place:].split()[0], self.times[place]) for place in starts]


class Line:
    """A WebSocket whose messages are JSON objects."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    def send(self, **message: Any) -> None:
        self.socket.send(json.dumps(message))

    def read(self) -> dict[str, Any]:
        message = json.loads(self.socket.recv(SECONDS))
        assert isinstance(message, dict)
        return message

    def heard(self, context: str | None = None, heard: Heard | None = None) -> Heard:
        """All of a context until it is final."""
        heard = heard or Heard()
        while not (message := self.read()).get("isFinal"):
            if message.get("contextId") == context:
                heard.add(message)
        return heard

    def heard_until(self, characters: str, heard: Heard) -> None:
        """Adds what is heard until the characters so far end like this."""
        while not heard.characters.endswith(characters):
            heard.add(self.read())


@contextmanager
def line(service: Running, path: str, **headers: str) -> Iterator[Line]:
    address = service.address.replace("http", "ws")
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    with connect(address + path, additional_headers=sent, proxy=None, open_timeout=SECONDS) as socket:
        yield Line(socket)


def is_idle(service: Running) -> bool:
    """Whether nothing is spoken or waits, and no socket counts as being answered."""
    requests = service.state.engine.requests
    return not [job for job in requests if not job.is_self_test] and not service.server.connections.answered


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(settings_in(tmp_path_factory.mktemp("streams")), limits=PATIENT) as opened:
        yield opened
