"""Free loopback ports for programs under test."""

import socket


def free_port() -> int:
    """A port without a listener."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
