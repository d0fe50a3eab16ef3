"""Connections: their time limits, their number for each address, and clients that leave.

uvicorn has no time limit for a request head: its keep-alive timer stops at the first byte, and a
connection that never sends one stays open. This module extends its protocol. As in nginx, the
oldest waiting connection is closed if its place is needed, and no connection is refused.

A connection waits until `api.gate` admits its request: the request has the key and is whole. So a
client without the key, or one that holds back a body, takes only a place that is given away.
"""

import asyncio
import contextlib
import ipaddress
import math
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import h11
import uvicorn
from starlette.types import Receive
from uvicorn.protocols.http.h11_impl import H11Protocol

# Set in scope["state"]: a function that counts the request as being answered until its end; False
# if too many are.
ADMIT = "admit"
# Set in scope["state"]: a function that takes the fields to send after a body without a length
# (RFC 9110, 6.5), before its end.
TRAILERS = "trailers"
# Set in scope["state"]: the network of the connection's peer, whatever a proxy's header says.
PEER = "peer"


@dataclass(frozen=True)
class ConnectionLimits:
    """The limits of connections.

    Attributes:
        head_seconds: The time limit for a request's line and headers, from the connection or from
            their first byte, and for the rest of a body after the response.
        stall_seconds: How long a client may leave a response unread.
        max_connections, max_per_address: How many connections may wait, and how many more may be
            answered.
    """

    head_seconds: float = 10.0
    stall_seconds: float = 60.0
    max_connections: int = 1_000
    max_per_address: int = 256


class Connection(Protocol):
    """A connection that may be closed when its place is needed."""

    address: str

    def drop(self, reason: str) -> None:
        """Closes the connection at once and counts the reason."""


@dataclass
class Connections:
    """Every open connection: the waiting ones, oldest first, and those being answered.

    Args:
        on_closed: Called with the reason when the service closes a connection.
    """

    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    on_closed: Callable[[str], None] = lambda _reason: None
    waiting: dict[Connection, None] = field(default_factory=dict)
    answered: dict[Connection, None] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.waiting) + len(self.answered)

    def is_full(self, address: str) -> bool:
        """Whether no more requests can be answered now, from this address or from any."""
        num_answered = sum(connection.address == address for connection in self.answered)
        return (
            num_answered >= self.limits.max_per_address or len(self.answered) >= self.limits.max_connections
        )

    def mark_waiting(self, connection: Connection) -> None:
        """Marks a connection as waiting; if there are too many, closes the one that waits longest.

        The address with the most connections loses one, so a flood from one client closes only its
        own.
        """
        self.forget(connection)
        self.waiting[connection] = None
        if len(self.waiting) <= self.limits.max_per_address:
            return
        crowded_address, count = Counter(waiting.address for waiting in self.waiting).most_common(1)[0]
        if count > self.limits.max_per_address or len(self.waiting) > self.limits.max_connections:
            oldest = next(waiting for waiting in self.waiting if waiting.address == crowded_address)
            oldest.drop("too_many")

    def mark_answered(self, connection: Connection) -> None:
        """Marks a connection as being answered."""
        self.forget(connection)
        self.answered[connection] = None

    def forget(self, connection: Connection) -> None:
        """Forgets a connection."""
        self.waiting.pop(connection, None)
        self.answered.pop(connection, None)

    def protocol(self) -> type["BoundedProtocol"]:
        """The protocol class whose connections are counted here."""
        return type("BoundedProtocol", (BoundedProtocol,), {"counted_connections": self})


class _TrailingConnection(h11.Connection):
    """h11's connection; uvicorn has no way to send trailers."""

    def __init__(self, max_head_bytes: int) -> None:
        super().__init__(h11.SERVER, max_head_bytes)
        self.trailers: list[tuple[bytes, bytes]] = []
        self._has_length = False

    def send(self, event: Any) -> Any:
        if isinstance(event, h11.Response):
            self.trailers.clear()
            self._has_length = any(name == b"content-length" for name, _ in event.headers)
        is_chunked = not self._has_length and self.their_http_version == b"1.1"
        if isinstance(event, h11.EndOfMessage) and self.trailers and is_chunked:
            event = h11.EndOfMessage(headers=[*self.trailers])
        return super().send(event)


class BoundedProtocol(H11Protocol):
    """uvicorn's HTTP protocol with time limits and a limit of connections."""

    counted_connections: Connections
    conn: _TrailingConnection
    address = ""
    _wait_reason = ""
    _wait_timer: asyncio.TimerHandle | None = None
    _stall_timer: asyncio.TimerHandle | None = None

    def __init__(self, config: uvicorn.Config, *args: Any, **kwargs: Any) -> None:
        super().__init__(config, *args, **kwargs)
        self.conn = _TrailingConnection(self.conn._max_incomplete_event_size)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """asyncio's callback; this and the methods below extend uvicorn's."""
        super().connection_made(transport)
        self.address = network_of(self.client[0] if self.client else "")
        self.app_state = {
            **self.app_state,
            PEER: self.address,
            ADMIT: self.admit,
            TRAILERS: self.conn.trailers.extend,
        }
        self.counted_connections.mark_waiting(self)
        self._limit_wait()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._wait_timer, self._stall_timer):
            if timer is not None:
                timer.cancel()
        self.counted_connections.forget(self)
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Parses new data, and data that arrived while the previous request was answered."""
        super().handle_events()
        self._limit_wait()

    def admit(self) -> bool:
        """Counts the request as being answered; False if no more can be."""
        connections = self.counted_connections
        if connections.is_full(self.address):
            return False
        if self in connections.waiting:  # else the client has left
            connections.mark_answered(self)
        return True

    def on_response_complete(self) -> None:
        if self in self.counted_connections.answered:
            self.counted_connections.mark_waiting(self)
        super().on_response_complete()
        self._limit_wait()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._limit_stall()

    def resume_writing(self) -> None:
        if self._stall_timer is not None and not self.transport.is_closing():
            self._stall_timer.cancel()
        super().resume_writing()

    def _limit_stall(self, unsent_before: float = math.inf) -> None:
        """Drops the connection once the client has read nothing for `stall_seconds`.

        unsent_before: The unsent bytes at the last check. A client that reads slowly gets all of a
        long answer, which pauses writing only once.
        """
        unsent = self.transport.get_write_buffer_size()
        if unsent >= unsent_before:
            self.drop("not_read")
            return
        if self._stall_timer is not None:
            self._stall_timer.cancel()
        seconds = self.counted_connections.limits.stall_seconds
        self._stall_timer = self.loop.call_later(seconds, self._limit_stall, unsent)

    def _unsupported_upgrade_warning(self) -> None:
        """Does nothing: the request is answered as plain HTTP (RFC 9110, 7.8). uvicorn would
        recommend a package."""

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Gives the connection to `api.http.web_sockets`."""
        self.counted_connections.forget(self)
        super().handle_websocket_upgrade(event)

    def send_400_response(self, msg: str) -> None:
        self.counted_connections.on_closed("not_http")
        super().send_400_response(msg)

    def drop(self, reason: str) -> None:
        """Closes the connection at once and drops unsent data."""
        self.counted_connections.forget(self)
        self.counted_connections.on_closed(reason)
        self.transport.abort()

    def _limit_wait(self) -> None:
        """Limits the time for which the connection waits for the client's next bytes, or, once it
        closes, for the client to read the last ones."""
        limits, reason, seconds = self.counted_connections.limits, "", 0.0
        if self.transport.is_closing():
            reason = "not_read"
        elif self.conn.their_state is h11.IDLE:
            # uvicorn's keep-alive timer ends at the first byte of the next head.
            if self.timeout_keep_alive_task is None:
                reason, seconds = "slow_head", limits.head_seconds
        elif self.conn.our_state is h11.DONE:
            reason, seconds = "slow_body", limits.head_seconds
        if reason == self._wait_reason:
            return
        if self._wait_timer is not None:
            self._wait_timer.cancel()
        self._wait_reason = reason
        if reason == "not_read":
            self._limit_stall()
        elif reason:
            self._wait_timer = self.loop.call_later(seconds, self.drop, reason)


async def while_connected(work: Awaitable[None], receive: Receive) -> None:
    """Runs `work` to its end, or cancels it once the client has disconnected. Raises what `work`
    raises."""
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(_wait_until_gone(receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
    finally:
        for task in (working, leaving):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task


async def _wait_until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def network_of(address: str) -> str:
    """The network that counts as one client; "" for a text that is not an IP address. With IPv6
    each subscriber has at least a /64 (https://www.rfc-editor.org/rfc/rfc6177) and can use any
    address in it."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return ""
    if isinstance(ip, ipaddress.IPv4Address):
        return address
    if ip.ipv4_mapped is not None:
        return str(ip.ipv4_mapped)
    return str(ipaddress.ip_network((ip, 64), strict=False))
