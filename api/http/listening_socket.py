"""Binds API_PORT and WYOMING_PORT before anything else starts, and explains a failure."""

import errno
import os
import socket

from machine.errors import SotaqueError


def bind_port(host: str, port: int, setting: str = "API_PORT") -> list[socket.socket]:
    """Opens a socket for each address of `host` (localhost has two).

    setting: the name of the setting that holds the port. Raises SotaqueError if none can be bound,
    or if another program uses the port.
    """
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise SotaqueError(
            f"API_HOST={host} is not an address of this machine ({error.strerror}). Use 127.0.0.1 "
            "for this machine alone, or 0.0.0.0 for all of its networks."
        ) from error
    bound: list[socket.socket] = []
    bind_error: OSError | None = None
    for family, _, _, _, address in dict.fromkeys(addresses):
        try:
            # It listens at once: before that, a second program can bind the same port.
            bound.append(socket.create_server(address, family=family))
            # Accepted connections inherit it; asyncio does not set it on these.
            bound[-1].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            bind_error = error
    # One address is enough: localhost may name ::1 on a machine without IPv6. But a port that
    # another program uses is an error, on whichever address.
    if bind_error is not None and (not bound or _is_taken(bind_error)):
        for bound_socket in bound:
            bound_socket.close()
        raise _bind_failure(host, port, bind_error, setting) from bind_error
    return bound


def _is_taken(error: OSError) -> bool:
    return error.errno == errno.EADDRINUSE


def _bind_failure(host: str, port: int, error: OSError, setting: str) -> SotaqueError:
    if _is_taken(error):
        return SotaqueError(
            f"{setting}={port} on {host} is in use by another program. Stop it, or set "
            f"{setting} to another port."
        )
    if isinstance(error, PermissionError):
        return SotaqueError(f"{setting}={port} is reserved for root. Set {setting} to 1024 or more.")
    reason = os.strerror(error.errno or 0)
    return SotaqueError(
        f"Cannot listen on {host} port {port} ({reason}). API_HOST must be an address of this "
        "machine: 127.0.0.1, or 0.0.0.0 for all of its networks."
    )
