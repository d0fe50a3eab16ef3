"""The listener of the Wyoming protocol, for `api.parts`."""

import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING

from api.http.connections import Connections
from api.http.listening_socket import bind_port
from api.settings import ApiSettings
from api.state import AppState
from extras.wyoming.settings import WyomingSettings
from machine import commands
from machine.errors import SotaqueError

if TYPE_CHECKING:
    from extras.wyoming.server import WyomingServer


def sockets_of(settings: ApiSettings) -> list[socket.socket]:
    """The sockets of WYOMING_PORT; none if it is off. Raises SotaqueError if it is in use."""
    assert isinstance(settings, WyomingSettings)
    if settings.wyoming_port is None:
        return []
    return bind_port(settings.api_host, settings.wyoming_port, "WYOMING_PORT")


def open_listener(
    state: AppState, connections: Connections, sockets: Sequence[socket.socket]
) -> "WyomingServer":
    """The server of the protocol. Raises SotaqueError if its package is missing."""
    try:
        from extras.wyoming.server import WyomingServer
    except ImportError as error:
        raise SotaqueError(
            f"WYOMING_PORT needs the package of that protocol, which is not installed ({error}). "
            f"Install it with `{commands.install_extra('wyoming')}`, or set WYOMING_PORT=off."
        ) from error
    return WyomingServer(state, connections, sockets)


def address(settings: ApiSettings) -> str:
    """The address for the log."""
    assert isinstance(settings, WyomingSettings)
    return f"Wyoming on tcp://{settings.api_host}:{settings.wyoming_port}"
