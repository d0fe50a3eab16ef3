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

    connections_by_address: Connections
    address = ""
    _closes_at_rest = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio's callback, as in uvicorn."""
        super().connection_made(transport)
        self.address = network_of(self.client[0] if self.client else "")
        self.app_state = {**self.app_state, PEER: self.address, SOCKET: self}
        self.connections_by_address.rests(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio's callback, as in uvicorn."""
        self.connections_by_address.leave(self)
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """uvicorn's call when the service stops: closes the socket once it does not speak."""
        self._closes_at_rest = self in self.connections_by_address.answered
        if not self._closes_at_rest:
            super().shutdown()

    def admit(self) -> bool:
        """Counts the socket as being answered; False if no more can be."""
        connections = self.connections_by_address
        if self in connections.waiting:
            if connections.full(self.address):
                return False
            connections.works(self)
        return True

    def rest(self) -> None:
        """Counts the socket as waiting again."""
        if self in self.connections_by_address.answered:
            self.connections_by_address.rests(self)
        if self._closes_at_rest:
            super().shutdown()

    def drop(self, reason: str) -> None:
        """Closes the connection at once and drops unsent data."""
        self.connections_by_address.leave(self)
        self.connections_by_address.on_closed(reason)
        self.transport.abort()


def protocol_of(connections: Connections) -> type[BoundedWebSocket]:
    """The protocol class whose connections are counted here."""
    return type("BoundedWebSocket", (BoundedWebSocket,), {"connections_by_address": connections})
