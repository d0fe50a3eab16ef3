"""WebSockets: uvicorn's protocol for them, within the limits of connections that HTTP has.

A WebSocket waits like an idle connection, and counts as being answered while it speaks. It has no
compression: base64 of sound takes computation and hardly shrinks.
"""

import asyncio

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from api.http.connections import PEER, Connections, network_of

# Set in scope["state"]: the `BoundedWebSocket` of the connection.
SOCKET = "socket"


class BoundedWebSocket(WebSocketsSansIOProtocol):
    """A WebSocket that is counted among the connections of the service."""

    counted_connections: Connections
    address = ""
    _closes_when_waiting = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio's callback, as in uvicorn."""
        super().connection_made(transport)
        self.address = network_of(self.client[0] if self.client else "")
        self.app_state = {**self.app_state, PEER: self.address, SOCKET: self}
        self.counted_connections.mark_waiting(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio's callback, as in uvicorn."""
        self.counted_connections.forget(self)
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """uvicorn's call when the service stops: closes the socket once it does not speak."""
        self._closes_when_waiting = self in self.counted_connections.answered
        if not self._closes_when_waiting:
            super().shutdown()

    def admit(self) -> bool:
        """Counts the socket as being answered; False if no more can be."""
        connections = self.counted_connections
        if self in connections.waiting:
            if connections.is_full(self.address):
                return False
            connections.mark_answered(self)
        return True

    def mark_waiting(self) -> None:
        """Counts the socket as waiting again."""
        if self in self.counted_connections.answered:
            self.counted_connections.mark_waiting(self)
        if self._closes_when_waiting:
            super().shutdown()

    def drop(self, reason: str) -> None:
        """Closes the connection at once and drops unsent data."""
        self.counted_connections.forget(self)
        self.counted_connections.on_closed(reason)
        self.transport.abort()


def protocol_of(connections: Connections) -> type[BoundedWebSocket]:
    """The protocol class whose connections are counted here."""
    return type("BoundedWebSocket", (BoundedWebSocket,), {"counted_connections": connections})
