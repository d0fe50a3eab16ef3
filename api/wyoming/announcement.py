"""Announces the Wyoming port in the local network by mDNS, as Home Assistant looks for it."""

import asyncio
import ipaddress
import logging
import socket

from zeroconf import NonUniqueNameException
from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf

log = logging.getLogger("api")
_KIND = "_wyoming._tcp.local."
# mDNS's own address (RFC 6762): the way to it is the way into the local network.
_MULTICAST = "224.0.0.251"


class Announcement:
    """From `start` to `close`. host: API_HOST; 0.0.0.0 is announced as this machine's address."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._zeroconf: AsyncZeroconf | None = None

    async def start(self) -> None:
        """A network without mDNS is told in the log, and nothing else changes."""
        try:
            address = await asyncio.to_thread(announced_address, self._host)
            self._zeroconf = AsyncZeroconf()
            name = f"sotaque-{socket.gethostname().partition('.')[0]}"
            info = AsyncServiceInfo(
                _KIND, f"{name}.{_KIND}", port=self._port, server=f"{name}.local.",
                parsed_addresses=[address],
            )  # fmt: skip
            await self._zeroconf.async_register_service(info, allow_name_change=True)
        except (OSError, NonUniqueNameException) as error:
            log.warning("WYOMING_ANNOUNCE: this network takes no announcement (%s).", error)
            await self.close()
            return
        log.info("Announced as %s at %s:%d", name, address, self._port)

    async def close(self) -> None:
        """Takes it back."""
        if self._zeroconf is not None:
            await self._zeroconf.async_unregister_all_services()
            await self._zeroconf.async_close()
            self._zeroconf = None


def announced_address(host: str) -> str:
    """The address under which others reach `host`. Raises OSError where there is none."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0]
    if not ipaddress.ip_address(str(found).partition("%")[0]).is_unspecified:
        return str(found)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        way.connect((_MULTICAST, 1))  # sends nothing
        return str(way.getsockname()[0])
