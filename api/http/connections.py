"""Time limits for connections, and a limit on their number for each address.

uvicorn has no time limit for a request head: its keep-alive timer stops at the first byte, and a
connection that never sends one stays open. This module extends its protocol. As in nginx, the
oldest idle connection is closed if its place is needed, and no connection is refused. `api.gate`
refuses a request over the limit once its head is read, and never refuses a probe.
"""

import asyncio
import ipaddress
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

# Set in scope["state"] of a request whose connection exceeds the limit.
OVER_LIMIT = "over_limit"
# Set in scope["state"]: the network of the connection's peer, whatever a proxy's header says.
PEER = "peer"


@dataclass(frozen=True)
class ConnectionLimits:
    """head_seconds: the time limit for a request's line and headers, from the connection or from
    their first byte; stall_seconds: how long a client may leave a response unread; most,
    most_per_address: how many connections may be idle, and how many more may be answered."""

    head_seconds: float = 10.0
    stall_seconds: float = 60.0
    most: int = 1_000
    most_per_address: int = 256


class Connection(Protocol):
    """A connection that may be closed when its place is needed."""

    address: str

    def drop(self, reason: str) -> None:
        """Closes the connection at once and counts the reason."""


@dataclass
class Connections:
    """Every open connection: the idle ones, oldest first, and those being answered.

    on_closed: called with the reason when the service closes a connection.
    """

    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    on_closed: Callable[[str], None] = lambda _reason: None
    idle: dict[Connection, None] = field(default_factory=dict)
    answered: dict[Connection, None] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.idle) + len(self.answered)

    def full(self, address: str) -> bool:
        """Whether no more requests can be answered now, from this address or from any."""
        own = sum(one.address == address for one in self.answered)
        return own >= self.limits.most_per_address or len(self.answered) >= self.limits.most

    def rests(self, one: Connection) -> None:
        """Marks a connection as idle; if there are too many, closes the one idle longest.

        The address with the most connections loses one, so a flood from one client closes only its
        own.
        """
        self.leave(one)
        self.idle[one] = None
        if len(self.idle) <= self.limits.most_per_address:
            return
        crowded, count = Counter(other.address for other in self.idle).most_common(1)[0]
        if count > self.limits.most_per_address or len(self.idle) > self.limits.most:
            next(other for other in self.idle if other.address == crowded).drop("too_many")

    def works(self, one: Connection) -> None:
        """Marks a connection as being answered: it has sent a head."""
        self.leave(one)
        self.answered[one] = None

    def leave(self, one: Connection) -> None:
        """Forgets a connection."""
        self.idle.pop(one, None)
        self.answered.pop(one, None)

    def protocol(self) -> type["BoundedProtocol"]:
        """The protocol class whose connections are counted here."""
        return type("BoundedProtocol", (BoundedProtocol,), {"connections_by_address": self})


class BoundedProtocol(H11Protocol):
    """uvicorn's HTTP protocol with time limits and a limit of connections."""

    connections_by_address: Connections
    address = ""
    _head_timer: asyncio.TimerHandle | None = None
    _stall_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """asyncio's callback, as in uvicorn; the methods below override its others."""
        super().connection_made(transport)
        self.address = network_of(self.client[0] if self.client else "")
        self.app_state = {**self.app_state, PEER: self.address}
        self.connections_by_address.rests(self)
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._head_timer, self._stall_timer):
            if timer is not None:
                timer.cancel()
        self.connections_by_address.leave(self)
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Parses new data, and data that arrived while the previous request was answered."""
        super().handle_events()
        self._look()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._look()

    def pause_writing(self) -> None:
        super().pause_writing()
        seconds = self.connections_by_address.limits.stall_seconds
        self._stall_timer = self.loop.call_later(seconds, self.drop, "not_read")

    def resume_writing(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
        super().resume_writing()

    def _unsupported_upgrade_warning(self) -> None:
        """Does nothing: the request is answered as plain HTTP (RFC 9110, 7.8). uvicorn would
        recommend a package that this service does not use."""

    def send_400_response(self, msg: str) -> None:
        self.connections_by_address.on_closed("not_http")
        super().send_400_response(msg)

    def drop(self, reason: str) -> None:
        """Closes the connection at once and drops unsent data."""
        self.connections_by_address.leave(self)
        self.connections_by_address.on_closed(reason)
        self.transport.abort()

    def _look(self) -> None:
        """Notes a new state of the connection: idle, or being answered."""
        connections = self.connections_by_address
        if self.transport.is_closing():
            return
        if self.conn.their_state is self.conn.our_state is h11.IDLE:
            if self not in connections.idle:
                connections.rests(self)
            # uvicorn's keep-alive timer ends at the first byte of the next head.
            if self.timeout_keep_alive_task is None and self._head_timer is None:
                seconds = connections.limits.head_seconds
                self._head_timer = self.loop.call_later(seconds, self.drop, "slow_head")
        elif self in connections.idle:
            if self._head_timer is not None:
                self._head_timer.cancel()
                self._head_timer = None
            self.scope["state"][OVER_LIMIT] = connections.full(self.address)
            connections.works(self)


def network_of(address: str) -> str:
    """The network that counts as one client; "" for a text that is not an IP address. With IPv6
    each subscriber has at least a /64 (https://www.rfc-editor.org/rfc/rfc6177) and can use any
    address in it."""
    try:
        ip: Any = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return ""
    if ip.version == 4:
        return address
    if ip.ipv4_mapped is not None:
        return str(ip.ipv4_mapped)
    return str(ipaddress.ip_network((ip, 64), strict=False))
