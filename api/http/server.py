"""Runs uvicorn with bounded connections and a shutdown within ten seconds.

`docker stop` sends SIGKILL ten seconds after SIGTERM, Kubernetes thirty. Requests that are being
spoken get FINISH_SECONDS of that time. Event streams are closed and waiting requests refused at
once.
"""

import asyncio
import logging
import resource
import socket
from collections.abc import Sequence
from types import ModuleType
from typing import Literal, Protocol

import uvicorn
from fastapi import FastAPI

from api.gate import MAX_HEAD_BYTES, MAX_TEXT_BYTES
from api.http.connections import ConnectionLimits, Connections
from api.state import AppState
from machine import commands

log = logging.getLogger("api")
FINISH_SECONDS = 6.0
# Requests that still run after this are cancelled; then the speaking process ends.
_CANCEL_SECONDS = 8
# Longer than a proxy keeps an idle connection: the service must not close one just as the proxy
# sends a request on it.
_KEEP_ALIVE_SECONDS = 75
# Open files that are not connections.
_OTHER_FILES = 256
_MAX_FILES = 1 << 16
# Connections that the kernel queues until they are accepted.
_MAX_BACKLOG = 2_048
# Connections accepted in one turn of the event loop. With more, a flood pushes out a connection
# before its head is read.
_MAX_ACCEPTED_AT_ONCE = 64


class Listener(Protocol):
    """A further protocol of an extra (`api.parts`)."""

    async def start(self) -> None:
        """Accepts connections."""

    async def close(self, seconds: float) -> None:
        """Lets active requests finish within these seconds."""


class Server(uvicorn.Server):
    """uvicorn's server with another shutdown order. Made by `server_of`."""

    state: AppState
    connections: Connections
    listeners: Sequence[Listener] = ()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts uvicorn, then the other protocols."""
        await super().startup(sockets)
        for bound_socket in sockets or ():
            bound_socket.listen(_MAX_BACKLOG)
        for listener in self.listeners if not self.should_exit else ():
            await listener.start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Refuses waiting requests and lets active ones finish within FINISH_SECONDS, in every
        protocol at once; then cancels the rest."""
        engine = self.state.engine
        self.state.events.close()
        engine.close_queue()
        cut_off_timer = asyncio.get_running_loop().call_later(FINISH_SECONDS, engine.cut_off)
        # Together: one after another, they would take these seconds each.
        closing_listeners = [listener.close(FINISH_SECONDS) for listener in self.listeners]
        await asyncio.gather(super().shutdown(sockets), *closing_listeners)
        cut_off_timer.cancel()


def server_of(
    app: FastAPI,
    limits: ConnectionLimits | None = None,
    listeners: Sequence[tuple[ModuleType, Sequence[socket.socket]]] = (),
) -> Server:
    """Builds the server of the application; its `run(sockets)` serves until a signal.

    listeners: the modules of other protocols (LISTENER in `api.parts`), each with its sockets.
    Raises SotaqueError.
    """
    state: AppState = app.state.service
    limits = limits or limits_within(raise_file_limit())
    connections = Connections(limits, lambda reason: state.metrics.connections_closed.labels(reason).inc())
    state.metrics.connections.set_function(lambda: len(connections))
    config = uvicorn.Config(
        app,
        http=connections.protocol(),
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_CANCEL_SECONDS,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        backlog=_MAX_ACCEPTED_AT_ONCE,
        ws=_web_socket_protocol(app, connections),
        ws_max_size=MAX_TEXT_BYTES,
        ws_per_message_deflate=False,
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
    )
    server = Server(config)
    server.state, server.connections = state, connections
    server.listeners = [module.open_listener(state, connections, sockets) for module, sockets in listeners]
    return server


def _web_socket_protocol(
    app: FastAPI, connections: Connections
) -> "type[asyncio.Protocol] | Literal['none']":
    """The protocol of WebSockets; none if no extra has a route for them, or without its package."""
    if not app.state.sockets:
        return "none"
    try:
        from api.http import web_sockets
    except ImportError as error:
        install = commands.install_extra("streams")
        log.warning("There are no WebSockets: their package is missing (%s). Install it: %s", error, install)
        return "none"
    return web_sockets.protocol_of(connections)


def raise_file_limit() -> int:
    """Raises the soft limit of open files to the hard one; returns the new soft limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, _MAX_FILES)
    if soft == resource.RLIM_INFINITY or soft >= limit:
        return _MAX_FILES if soft == resource.RLIM_INFINITY else soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    return limit


def limits_within(open_files: int) -> ConnectionLimits:
    """The connection limits that `open_files` file descriptors allow, up to a fixed maximum."""
    defaults = ConnectionLimits()
    max_connections = max(8, min(defaults.max_connections, (open_files - _OTHER_FILES) // 2))
    max_per_address = min(defaults.max_per_address, max_connections)
    return ConnectionLimits(max_connections=max_connections, max_per_address=max_per_address)
