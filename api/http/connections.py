"""Accepts connections on bare sockets, with time limits and a limit for each address.

As soon as a connection is accepted, asyncio makes a transport for it and uvicorn a parser, in the
order of arrival. A health probe waits until that work is done for every connection before it: for
seconds, if 2,000 clients connect and send nothing. A bare socket costs a fraction of that, so a
connection gets its transport and parser only when the head of its first request has arrived.

uvicorn has no time limit for a head: its keep-alive timer ends at the first byte, and it keeps a
connection that never sends one for ever. So its protocol is extended here. As in nginx, the oldest
idle connection is closed when its place is needed, and no connection is refused. `api.gate` refuses
a request over the limit once its head is read, and never refuses a probe.
"""

import asyncio
import errno
import functools
import ipaddress
import logging
import re
import socket
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

# Set in scope["state"] of a request whose connection exceeds the limit.
OVER_LIMIT = "over_limit"
# Set in scope["state"]: the network of the connection's peer, whatever a proxy's header says.
PEER = "peer"
log = logging.getLogger("api")
# Accepted in one turn of the event loop: a few milliseconds, then requests have their turn.
_ACCEPTED_AT_ONCE = 64
_RETRY_SECONDS = 1.0
_NO_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
# h11 also accepts bare line feeds, and at once refuses a head that begins with a control character
# or a space.
_HEAD_END = re.compile(rb"\n\r?\n")
_FIRST_PRINTABLE = 0x21


@dataclass(frozen=True)
class ConnectionLimits:
    """head_seconds: the time limit for a request's line and headers, from the connection or from
    their first byte; stall_seconds: how long a client may read nothing of an answer; most,
    most_per_address: how many connections may be idle, and how many more may be answered."""

    head_seconds: float = 10.0
    stall_seconds: float = 60.0
    most: int = 1_000
    most_per_address: int = 256


class IdleConnection(Protocol):
    """A connection that may be closed when its place is needed."""

    address: str

    def drop(self, reason: str) -> None:
        """Closes the connection at once and counts the reason."""


@dataclass
class Connections:
    """Every open connection by address: the idle ones, oldest first, and how many are answered.

    on_closed: called with the reason when the service closes a connection.
    """

    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    on_closed: Callable[[str], None] = lambda _reason: None
    _idle: dict[str, OrderedDict[IdleConnection, None]] = field(default_factory=dict)
    _answered: dict[str, set[IdleConnection]] = field(default_factory=dict)
    _num_idle: int = 0
    _num_answered: int = 0

    def __len__(self) -> int:
        return self._num_idle + self._num_answered

    def full(self, address: str) -> bool:
        """Whether no more requests can be answered now, from this address or from any."""
        own = len(self._answered.get(address, ()))
        return own >= self.limits.most_per_address or self._num_answered >= self.limits.most

    def rests(self, one: IdleConnection) -> None:
        """Marks a connection as idle; if there are too many, closes the one that is idle
        longest."""
        self.leave(one)
        held = self._idle.setdefault(one.address, OrderedDict())
        held[one] = None
        self._num_idle += 1
        if len(held) > self.limits.most_per_address:
            next(iter(held)).drop("too_many")
        elif self._num_idle > self.limits.most:
            # The address with the most connections loses one, so that one client's flood closes no
            # other's.
            most = max(self._idle, key=lambda address: len(self._idle[address]))
            next(iter(self._idle[most])).drop("too_many")

    def works(self, one: IdleConnection) -> None:
        """Marks a connection as answered: it has sent a head."""
        self.leave(one)
        self._answered.setdefault(one.address, set()).add(one)
        self._num_answered += 1

    def leave(self, one: IdleConnection) -> None:
        """Forgets a connection."""
        address = one.address
        if one in (held := self._idle.get(address, OrderedDict())):
            del held[one]
            self._num_idle -= 1
            if not held:
                del self._idle[address]
        if one in (answered := self._answered.get(address, set())):
            answered.discard(one)
            self._num_answered -= 1
            if not answered:
                del self._answered[address]

    def protocol(self) -> type["BoundedProtocol"]:
        """The protocol class of connections that have sent a head."""
        return type("BoundedProtocol", (BoundedProtocol,), {"connections_by_address": self})


class BoundedProtocol(H11Protocol):
    """uvicorn's HTTP protocol with time limits and a limit of connections.

    first_bytes: what the client sent before the connection had a transport.
    """

    connections_by_address: Connections
    first_bytes = b""
    address = ""
    _is_idle = True
    _head_timer: asyncio.TimerHandle | None = None
    _stall_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """asyncio's callback, as in uvicorn; the methods below override its others."""
        super().connection_made(transport)
        self.address = network_of(self.client[0] if self.client else "")
        self._usual_state = {**self.app_state, PEER: self.address}
        self._wait_for_head()
        self.connections_by_address.rests(self)
        if self.first_bytes:
            self.data_received(self.first_bytes)
            self.first_bytes = b""

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timers()
        self.connections_by_address.leave(self)
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Parses what has arrived, and what was kept while the request before it was answered."""
        over_limit = self.connections_by_address.full(self.address)
        self.app_state = (
            {**self._usual_state, OVER_LIMIT: True} if over_limit else self._usual_state
        )
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
        """Nothing: the request is answered as plain HTTP (RFC 9110, 7.8). uvicorn would advise to
        install a package, which this service would not use."""

    def send_400_response(self, msg: str) -> None:
        self.connections_by_address.on_closed("not_http")
        super().send_400_response(msg)

    def drop(self, reason: str) -> None:
        """Closes the connection at once and drops what is not sent yet."""
        self._stop_timers()
        self.connections_by_address.leave(self)
        self.connections_by_address.on_closed(reason)
        self.transport.abort()

    def _look(self) -> None:
        if self.transport.is_closing():
            return
        idle = self.conn.their_state is h11.IDLE and self.conn.our_state is h11.IDLE
        if idle != self._is_idle:
            self._is_idle = idle
            if idle:
                self.connections_by_address.rests(self)
            else:
                self._stop_head_timer()
                self.connections_by_address.works(self)
        # uvicorn's keep-alive timer ends at the first byte of the next head.
        if idle and self.timeout_keep_alive_task is None and self._head_timer is None:
            self._wait_for_head()

    def _wait_for_head(self) -> None:
        seconds = self.connections_by_address.limits.head_seconds
        self._head_timer = self.loop.call_later(seconds, self.drop, "slow_head")

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _stop_timers(self) -> None:
        self._stop_head_timer()
        if self._stall_timer is not None:
            self._stall_timer.cancel()


def is_address(text: str) -> bool:
    """Whether `text` is an IP address, with or without a zone."""
    try:
        ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return True


def network_of(address: str) -> str:
    """The network that counts as one client. With IPv6 each subscriber has at least a /64
    (https://www.rfc-editor.org/rfc/rfc6177) and can use any address in it."""
    try:
        ip: Any = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if ip.version == 4:
        return address
    if ip.ipv4_mapped is not None:
        return str(ip.ipv4_mapped)
    return str(ipaddress.ip_network((ip, 64), strict=False))


class Acceptor:
    """Accepts on listening sockets; a connection that has sent a head gets `make_protocol`'s
    protocol.

    Args:
        most_head_bytes: A longer head is handed on as it is, for the parser to refuse.
    """

    def __init__(
        self,
        connections: Connections,
        make_protocol: Callable[[], BoundedProtocol],
        *,
        most_head_bytes: int,
    ) -> None:
        self.connections = connections
        self.most_head_bytes = most_head_bytes
        self.loop = asyncio.get_running_loop()
        self._make_protocol = make_protocol
        self._listening: list[socket.socket] = []
        self._pending = set[PendingConnection]()
        self._handing_over = set[asyncio.Task[None]]()

    def accept_from(self, listening: Iterable[socket.socket]) -> None:
        """Accepts until `close`."""
        for one in listening:
            one.setblocking(False)
            self._listening.append(one)
            self._watch(one)

    async def close(self) -> None:
        """Stops accepting, and closes the connections that have not sent a head; the others belong
        to uvicorn by then. The listening sockets stay open: their owner closes them."""
        for one in self._listening:
            self.loop.remove_reader(one)
        self._listening.clear()
        for pending in list(self._pending):
            pending.close()
        await asyncio.gather(*self._handing_over)

    def forget(self, pending: "PendingConnection") -> None:
        """Forgets a connection that is closed or handed over."""
        self._pending.discard(pending)
        self.connections.leave(pending)

    def hand_over(self, connection: socket.socket, head: bytes) -> None:
        """Gives a connection a transport and a parser, and passes `head` to the parser first."""
        task = self.loop.create_task(self._connect(connection, head))
        self._handing_over.add(task)
        task.add_done_callback(self._handing_over.discard)

    def _watch(self, listening: socket.socket) -> None:
        if listening in self._listening:
            self.loop.add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                connection, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _NO_RESOURCES:
                    raise
                log.warning("No connection can be accepted now (%s).", error.strerror)
                self.loop.remove_reader(
                    listening
                )  # it stays readable, and would be polled for ever
                self.loop.call_later(_RETRY_SECONDS, self._watch, listening)
                return
            connection.setblocking(False)
            pending = PendingConnection(self, connection, _network_of(address[0]))
            self._pending.add(pending)
            self.connections.rests(pending)

    async def _connect(self, connection: socket.socket, head: bytes) -> None:
        def protocol() -> BoundedProtocol:
            made = self._make_protocol()
            made.first_bytes = head
            return made

        try:
            await self.loop.connect_accepted_socket(protocol, connection)
        except OSError:  # the client has gone
            connection.close()


class PendingConnection:
    """A connection whose first head has not arrived yet."""

    def __init__(self, acceptor: Acceptor, connection: socket.socket, address: str) -> None:
        self.address = address
        self._acceptor = acceptor
        self._connection = connection
        self._received = b""
        acceptor.loop.add_reader(connection, self._read)
        seconds = acceptor.connections.limits.head_seconds
        self._timer = acceptor.loop.call_later(seconds, self.drop, "slow_head")

    def drop(self, reason: str) -> None:
        """Closes the connection and counts the reason."""
        self.close()
        self._acceptor.connections.on_closed(reason)

    def close(self) -> None:
        """Closes it."""
        self._leave()
        self._connection.close()

    def _leave(self) -> None:
        self._timer.cancel()
        self._acceptor.loop.remove_reader(self._connection)
        self._acceptor.forget(self)

    def _read(self) -> None:
        try:
            piece = self._connection.recv(self._acceptor.most_head_bytes)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            piece = b""
        if not piece:
            self.close()
            return
        searched = max(0, len(self._received) - 2)
        self._received += piece
        if self._is_for_parser(searched):
            self._leave()
            self._acceptor.hand_over(self._connection, self._received)

    def _is_for_parser(self, searched: int) -> bool:
        return (
            _HEAD_END.search(self._received, searched) is not None
            or self._received[0] < _FIRST_PRINTABLE
            or len(self._received) > self._acceptor.most_head_bytes
        )


_network_of = functools.lru_cache(4_096)(network_of)
