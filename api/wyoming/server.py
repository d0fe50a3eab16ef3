"""Accepts Wyoming's connections, within the limits of HTTP's, and ends them with the service."""

import asyncio
import logging
import socket
from collections.abc import Sequence

from api.http.connections import Connections
from api.state import AppState
from api.wyoming.announcement import Announcement
from api.wyoming.session import WyomingSession

log = logging.getLogger("api")


class WyomingServer:
    """Made before the service starts, used in its event loop. languages: see `WyomingSession`."""

    def __init__(
        self, parts: AppState, connections: Connections, sockets: Sequence[socket.socket]
    ) -> None:
        self.languages: tuple[str, ...] = ()
        self._parts = parts
        self._connections = connections
        self._sockets = sockets
        self._servers: list[asyncio.Server] = []
        self._sessions: dict[WyomingSession, asyncio.Task[None]] = {}
        self._announcement: Announcement | None = None

    async def start(self) -> None:
        """Accepts, and announces itself where that is asked for."""
        for one in self._sockets:
            self._servers.append(await asyncio.start_server(self._serve, sock=one))
        settings = self._parts.settings
        if settings.wyoming_announce:
            port = self._sockets[0].getsockname()[1]
            self._announcement = Announcement(settings.api_host, port)
            await self._announcement.start()

    async def close(self, seconds: float) -> None:
        """Takes nobody in any more. Who is spoken to has `seconds`; who is not is let go."""
        if self._announcement is not None:
            await self._announcement.close()
        for server in self._servers:
            server.close()
        for session in list(self._sessions):
            if not session.busy:
                session.drop("closing")
        if self._sessions:
            await asyncio.wait(self._sessions.values(), timeout=seconds)
        for session in list(self._sessions):
            session.drop("closing")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        # A peer that has gone without a word, its machine switched off, is noticed some day.
        found = writer.get_extra_info("socket")
        found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        session = WyomingSession(reader, writer, self._parts, self._connections, self)
        self._sessions[session] = task
        try:
            await session.run()
        finally:
            del self._sessions[session]
