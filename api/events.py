"""Server-sent events for /events: broadcasts changes to every open page."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping

from pydantic import BaseModel

from api.errors import APIError, closing

MAX_LISTENERS = 64
_MAX_WAITING = 256
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

    def _put(self, text: bytes | None) -> None:
        for queue in self.listeners:
            if queue.full():
                queue.get_nowait()
            queue.put_nowait(text)

    async def listen(self, first: list[tuple[str, EventData]]) -> AsyncIterator[bytes]:
        """All events from now on; comments in between keep the connection alive."""
        if self._closed:
            raise closing()
        if len(self.listeners) >= MAX_LISTENERS:
            raise APIError(
                503, "too_many_listeners", "Too many clients are listening to events.", retry_after=5
            )
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(_MAX_WAITING)
        self.listeners.add(queue)
        return self._from(queue, first)

    async def _from(
        self, queue: "asyncio.Queue[bytes | None]", first: list[tuple[str, EventData]]
    ) -> AsyncIterator[bytes]:
        try:
            yield b"retry: 2000\n\n"
            for name, data in first:
                yield _event(name, data)
            while True:
                try:
                    text = await asyncio.wait_for(queue.get(), _COMMENT_SECONDS)
                except TimeoutError:
                    text = b": still here\n\n"
                if text is None:
                    return
                yield text
        finally:
            self.listeners.discard(queue)


def _event(name: str, data: EventData) -> bytes:
    content = data.model_dump_json() if isinstance(data, BaseModel) else json.dumps(data)
    return f"event: {name}\ndata: {content}\n\n".encode()
