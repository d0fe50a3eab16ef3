"""The start of Wyoming: a missing package, and the announcement."""

import asyncio
import socket
import sys

import pytest
from zeroconf import ServiceStateChange
from zeroconf.asyncio import AsyncServiceBrowser, AsyncZeroconf

from api import settings
from api.http.server import server_of
from extras.wyoming import listener, server
from machine.errors import SotaqueError


def test_without_the_package_it_says_what_to_type(monkeypatch):
    from api.app import build

    for name in [name for name in sys.modules if name.startswith("extras.wyoming.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "wyoming", None)
    monkeypatch.setitem(sys.modules, "zeroconf", None)
    with socket.socket() as sock, pytest.raises(SotaqueError, match=r"\[wyoming\]"):
        server_of(build(settings.load((), {}, None)[0]), listeners=[(listener, [sock])])


def test_every_address_is_announced_as_one_that_can_be_asked():
    assert server.announced_address("192.168.1.2") == "192.168.1.2"
    try:
        found = server.announced_address("0.0.0.0")
    except OSError:
        pytest.skip("This machine has no network.")
    assert found != "0.0.0.0"


def test_the_announcement_is_found_and_taken_back(monkeypatch):
    """On loopback only, with zeroconf's browser."""
    monkeypatch.setattr(server, "AsyncZeroconf", lambda: AsyncZeroconf(interfaces=["127.0.0.1"]))
    seen: list[tuple[ServiceStateChange, str]] = []

    async def until_seen(count):
        async with asyncio.timeout(5):
            while len(seen) < count:
                await asyncio.sleep(0.05)

    async def ask():
        async with AsyncZeroconf(interfaces=["127.0.0.1"]) as other:

            def on_change(zeroconf, service_type, name, state_change):
                seen.append((state_change, name))

            browser = AsyncServiceBrowser(other.zeroconf, "_wyoming._tcp.local.", handlers=[on_change])
            ours = server.Announcement("127.0.0.1", 10200)
            await ours.start()
            await until_seen(1)
            assert seen[0][0] is ServiceStateChange.Added
            info = await other.async_get_service_info("_wyoming._tcp.local.", seen[0][1])
            assert info is not None and info.port == 10200
            assert info.parsed_addresses() == ["127.0.0.1"]
            await ours.close()
            await until_seen(2)
            assert seen[-1][0] is ServiceStateChange.Removed
            await browser.async_cancel()

    asyncio.run(ask())
