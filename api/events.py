"""Server-sent events for /events: broadcasts changes to every open page."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping

from pydantic import BaseModel

from api.errors import APIError, closing_refusal

MAX_LISTENERS = 64
# The events that may wait for one listener.
_MAX_WAITING_EVENTS = 256
# The time without an event after which a comment is sent.
_COMMENT_SECONDS = 15.0
EventData = BaseModel | Mapping[str, object]


class Events:
    """A queue for each listener; a listener that does not read loses the oldest events."""

    def __init__(self) -> None:
        self.listeners: set[asyncio.Queue[bytes | None]] = set()
        self._closed = False

    def tell(self, name: str, data: EventData) -> None:
        """Sends an event to every listener."""
        self._put(_event(name, data))

    def close(self) -> None:
        """Ends every stream and refuses new ones, so that open pages do not delay the shutdown."""
        self._closed = True
        self._put(None)

    def _put(self, event: bytes | None) -> None:
        for queue in self.listeners:
            if queue.full():
                queue.get_nowait()
            queue.put_nowait(event)

    async def listen(self, first: list[tuple[str, EventData]]) -> AsyncIterator[bytes]:
        """The `first` events, then all from now on; comments in between keep the connection alive."""
        if self._closed:
            raise closing_refusal()
        if len(self.listeners) >= MAX_LISTENERS:
            raise APIError(
                503, "too_many_listeners", "Too many clients are listening to events.", retry_after=5
            )
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(_MAX_WAITING_EVENTS)
        self.listeners.add(queue)
        return self._events_from(queue, first)

    async def _events_from(
        self, queue: "asyncio.Queue[bytes | None]", first: list[tuple[str, EventData]]
    ) -> AsyncIterator[bytes]:
        try:
            yield b"retry: 2000\n\n"
            for name, data in first:
                yield _event(name, data)
            while True:
                try:
                    event = await asyncio.wait_for(queue.get(), _COMMENT_SECONDS)
                except TimeoutError:
                    event = b": still here\n\n"
                if event is None:
                    return
                yield event
        finally:
            self.listeners.discard(queue)


def _event(name: str, data: EventData) -> bytes:
    content = data.model_dump_json() if isinstance(data, BaseModel) else json.dumps(data)
    return f"event: {name}\ndata: {content}\n\n".encode()
