"""A web server in a thread that serves files correctly, or with a fault chosen by a test."""

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Bad:
    """A fault of one answer; one request uses it up.

    cut_after: bytes of the body before the connection closes. length: a false Content-Length (0:
    none). stall: sends nothing more before `Server.close`.
    """

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    cut_after: int | None = None
    length: int | None = None
    stall: bool = False
    ignore_range: bool = False
    start_at: int | None = None
    body: bytes | None = None
    reset: bool = False


class _Quiet(ThreadingHTTPServer):
    def handle_error(self, *_: Any) -> None:
        """Ignored: in some tests the client disconnects on purpose."""


class Server:
    """`files`: path -> content; `bad`: path -> its next answers; `asked`: (path, headers)."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.bad: dict[str, list[Bad]] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.closing = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                server.asked.append((self.path, dict(self.headers)))
                server.answer(self)
                self.close_connection = True

            def log_message(self, *_: Any) -> None:
                pass

        self.http = _Quiet(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_address[1]}"

    def ranges(self, path: str) -> list[str]:
        """The requested ranges of a file, in order; "" = all of it."""
        return [headers.get("Range", "") for asked, headers in self.asked if asked == path]

    def close(self) -> None:
        self.closing.set()
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()

    def answer(self, to: BaseHTTPRequestHandler) -> None:
        waiting = self.bad.get(to.path, [])
        bad = waiting.pop(0) if waiting else Bad()
        if bad.reset:
            to.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
            to.connection.close()
            return
        if bad.status:
            self._plain(to, bad.status, bad.headers, bad.body or b"no")
        elif to.path not in self.files:
            self._plain(to, 404, {}, b"not found")
        else:
            self._file(to, bad)

    def _plain(self, to: BaseHTTPRequestHandler, status: int, headers: dict[str, str], body: bytes) -> None:
        to.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            to.send_header(name, value)
        to.end_headers()
        to.wfile.write(body)

    def _file(self, to: BaseHTTPRequestHandler, bad: Bad) -> None:
        content = self.files[to.path] if bad.body is None else bad.body
        start = self._start(to, bad)
        if start and start >= len(content):
            self._plain(to, 416, {"Content-Range": f"bytes */{len(content)}"}, b"")
            return
        shown = start if bad.start_at is None else bad.start_at
        body = content[shown:]
        to.send_response(206 if start else 200)
        if start:
            span = f"bytes {shown}-{len(content) - 1}/{len(content)}"
            to.send_header("Content-Range", span)
        if bad.length != 0:
            to.send_header("Content-Length", str(len(body) if bad.length is None else bad.length))
        for name, value in bad.headers.items():
            to.send_header(name, value)
        to.end_headers()
        to.wfile.write(body if bad.cut_after is None else body[: bad.cut_after])
        to.wfile.flush()
        if bad.stall:
            self.closing.wait(30)

    def _start(self, to: BaseHTTPRequestHandler, bad: Bad) -> int:
        """The first requested byte; 0 if the range is ignored."""
        asked = re.fullmatch(r"bytes=(\d+)-", to.headers.get("Range", ""))
        if not asked or bad.ignore_range:
            return 0
        return int(asked[1])


@contextmanager
def serving() -> Iterator[Server]:
    server = Server()
    try:
        yield server
    finally:
        server.close()
