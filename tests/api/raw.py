"""HTTP byte by byte, for clients that stop midway, and a service in a separate process."""

import contextlib
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx


def request(line: str, body: bytes | dict[str, Any] = b"", **headers: object) -> bytes:
    """The bytes of a request. line: "POST /path"; a dictionary is sent as JSON."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    if isinstance(body, dict):
        headers["content_type"] = "application/json"
    told = {"host": "localhost", "content_length": len(content), **headers}
    fields = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in told.items())
    return f"{line} HTTP/1.1\r\n{fields}\r\n".encode() + content


def connected(port: int, first: bytes = b"") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=30)
    connection.sendall(first)
    return connection


def everything(connection: socket.socket) -> bytes:
    """All bytes until the other side closes."""
    return b"".join(iter(lambda: connection.recv(4096), b""))


@contextlib.contextmanager
def process(*command: str, port: int, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A service process that is ready to speak. It logs to `folder`/log."""
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(
            (sys.executable, "-m", *command), stdout=log, stderr=subprocess.STDOUT, text=True
        ) as popen,
    ):
        try:
            wait_ready(popen, port, folder / "log")
            yield popen
        finally:
            popen.kill()


def wait_ready(process: subprocess.Popen[Any], port: int, log: Path) -> None:
    """Waits until the service can speak."""
    end = time.monotonic() + 120
    while not ready(port):
        assert process.poll() is None and time.monotonic() < end, log.read_text()
        time.sleep(0.1)


def ready(port: int) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        address = f"http://127.0.0.1:{port}/readyz"
        return httpx.get(address, timeout=5, trust_env=False).status_code == 200
    return False
