"""Accepts connections, and keeps each as a bare socket until the head of its first request is here.

asyncio makes a transport and uvicorn a parser as soon as a connection is accepted. Connections are
accepted in the order in which they came, so a probe waits for that work on behalf of everybody who
came before it: with 2,000 clients who connect and send nothing, for seconds. A bare socket costs a
fraction of it, and only a whole head is worth more.
"""

import asyncio
import errno
import functools
import logging
import re
import socket
from collections.abc import Callable, Iterable

from api.http.connections import BoundedProtocol, Connections, network_of

log = logging.getLogger("api")

# In one turn of the event loop: some milliseconds, after which requests have theirs.
_ACCEPTED_AT_ONCE = 64
_RETRY_SECONDS = 1.0
_NO_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
# h11 takes bare line feeds too, and refuses at once what begins with a control character or space.
_HEAD_END = re.compile(rb"\n\r?\n")
_FIRST_PRINTABLE = 0x21


class Acceptor:
    """Accepts on listening sockets; connections that have sent a head go to `make_protocol`'s.

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
        """Accepts nothing more, and closes the connections that have not sent a head; those that
        have are with uvicorn then. The listening sockets stay open: they are their owner's."""
        for one in self._listening:
            self.loop.remove_reader(one)
        self._listening.clear()
        for pending in list(self._pending):
            pending.close()
        await asyncio.gather(*self._handing_over)

    def forget(self, pending: "PendingConnection") -> None:
        """Of a connection that is closed or handed over."""
        self._pending.discard(pending)
        self.connections.leave(pending)

    def hand_over(self, connection: socket.socket, head: bytes) -> None:
        """Gives a connection a transport and a parser, which first gets `head`."""
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
                self.loop.remove_reader(listening)  # it would stay readable, and be asked for ever
                self.loop.call_later(_RETRY_SECONDS, self._watch, listening)
                return
            connection.setblocking(False)
            pending = PendingConnection(self, connection, _network_of(address[0]))
            self._pending.add(pending)
            self.connections.rests(pending)

    async def _connect(self, connection: socket.socket, head: bytes) -> None:
        def protocol() -> BoundedProtocol:
            found = self._make_protocol()
            found.first_bytes = head
            return found

        try:
            await self.loop.connect_accepted_socket(protocol, connection)
        except OSError:  # the client has gone
            connection.close()


class PendingConnection:
    """A connection whose first head is not here yet."""

    def __init__(self, acceptor: Acceptor, connection: socket.socket, address: str) -> None:
        self.address = address
        self._acceptor = acceptor
        self._connection = connection
        self._received = b""
        acceptor.loop.add_reader(connection, self._read)
        seconds = acceptor.connections.limits.head_seconds
        self._timer = acceptor.loop.call_later(seconds, self.drop, "slow_head")

    def drop(self, reason: str) -> None:
        """Closes it, and counts why."""
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
