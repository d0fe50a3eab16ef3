"""Accepts Wyoming connections, within the same limits as HTTP, and closes them with the service.

Announces the port on the local network by mDNS, for Home Assistant.
"""

import asyncio
import ipaddress
import logging
import socket
from collections.abc import Sequence

from zeroconf import NonUniqueNameException
from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf

from api.http.connections import Connections
from api.state import AppState
from extras.wyoming.session import WyomingSession
from extras.wyoming.settings import WyomingSettings

log = logging.getLogger("api")
_KIND = "_wyoming._tcp.local."
# mDNS's multicast address (RFC 6762): the route to it goes out on the local network.
_MULTICAST = "224.0.0.251"


class WyomingServer:
    """The Wyoming server. Created before the service starts, and used in its event loop."""

    def __init__(self, state: AppState, connections: Connections, sockets: Sequence[socket.socket]) -> None:
        self._state = state
        self._connections = connections
        self._sockets = sockets
        self._servers: list[asyncio.Server] = []
        self._sessions: dict[WyomingSession, asyncio.Task[None]] = {}
        self._announcement: Announcement | None = None

    async def start(self) -> None:
        """Starts to accept, and announces the service if the settings say so."""
        for listener in self._sockets:
            self._servers.append(await asyncio.start_server(self._serve, sock=listener))
        settings = self._state.settings
        assert isinstance(settings, WyomingSettings)
        if settings.wyoming_announce:
            port = self._sockets[0].getsockname()[1]
            self._announcement = Announcement(settings.api_host, port)
            await self._announcement.start()

    async def close(self, seconds: float) -> None:
        """Stops accepting and closes idle connections. Speech in progress has `seconds` to
        finish."""
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
        # Keep-alive packets detect, in time, a peer whose machine was switched off.
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        session = WyomingSession(reader, writer, self._state, self._connections)
        self._sessions[session] = task
        try:
            await session.run()
        finally:
            del self._sessions[session]


class Announcement:
    """The mDNS announcement, from `start` to `close`. host: API_HOST; 0.0.0.0 is announced as this
    machine's address."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._zeroconf: AsyncZeroconf | None = None

    async def start(self) -> None:
        """Announces the service. If the network does not support mDNS, only logs that."""
        try:
            address = await asyncio.to_thread(announced_address, self._host)
            self._zeroconf = AsyncZeroconf()
            name = f"sotaque-{socket.gethostname().partition('.')[0]}"
            info = AsyncServiceInfo(
                _KIND, f"{name}.{_KIND}", port=self._port, server=f"{name}.local.", parsed_addresses=[address]
            )
            await self._zeroconf.async_register_service(info, allow_name_change=True)
        except (OSError, NonUniqueNameException) as error:
            log.warning("WYOMING_ANNOUNCE: the announcement on this network failed (%s).", error)
            await self.close()
            return
        log.info("Home Assistant can find this service (mDNS) as %s at %s:%d.", name, address, self._port)

    async def close(self) -> None:
        """Withdraws the announcement."""
        if self._zeroconf is not None:
            await self._zeroconf.async_unregister_all_services()
            await self._zeroconf.async_close()
            self._zeroconf = None


def announced_address(host: str) -> str:
    """The IP address at which other machines reach `host`. Raises OSError if there is none."""
    address = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0]
    if not ipaddress.ip_address(str(address).partition("%")[0]).is_unspecified:
        return str(address)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        way.connect((_MULTICAST, 1))  # sends nothing
        return str(way.getsockname()[0])
