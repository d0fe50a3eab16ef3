"""Reads events of the Wyoming protocol within bounds of size and time.

The protocol's own reader waits for as many bytes as an event says it has, for as long as they take.
"""

import asyncio
from typing import cast

from wyoming.event import Event, async_read_event

# The data of an event and its payload; a text of 4,096 characters takes 50 kB at most.
MOST_BYTES = 64 << 10


class MalformedEvent(Exception):
    """What came is no event, or one that is too large."""


class EventReader:
    """The events of one connection.

    event_seconds: from the first byte of an event to its last.
    """

    def __init__(self, reader: asyncio.StreamReader, event_seconds: float) -> None:
        self._reader = reader
        self._event_seconds = event_seconds
        self._ended = False
        self._deadline = 0.0

    async def next(self) -> Event | None:
        """The next event; None where the client has gone. Raises MalformedEvent, and TimeoutError
        for one that came too slowly."""
        try:
            # It asks its reader for a line, and for as many bytes as that says.
            event = await async_read_event(cast(asyncio.StreamReader, self))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        except (AttributeError, KeyError, TypeError, RecursionError) as error:
            raise MalformedEvent("This is no event of the Wyoming protocol.") from error
        if event is None and not self._ended:
            raise MalformedEvent("This is no event of the Wyoming protocol.")
        if event is not None and not _is_well_formed(event):
            raise MalformedEvent("An event needs a text as its type, and an object as its data.")
        return event

    async def readline(self) -> bytes:
        """asyncio's method of that name. Between events there is no time limit."""
        first = await self._reader.read(1)
        if not first:
            self._ended = True
            return b""
        self._deadline = asyncio.get_running_loop().time() + self._event_seconds
        async with asyncio.timeout_at(self._deadline):
            return first + await self._reader.readline()

    async def readexactly(self, size: int) -> bytes:
        """asyncio's method of that name."""
        if type(size) is not int or size > MOST_BYTES:
            raise MalformedEvent(f"An event may have {MOST_BYTES:,} bytes.")
        async with asyncio.timeout_at(self._deadline):
            return await self._reader.readexactly(size)


def _is_well_formed(event: Event) -> bool:
    return isinstance(event.type, str) and isinstance(event.data, dict)
