"""Routes that extras add to the service, with their state, and protocols besides HTTP.

SERVICE (see `machine.extras`) names a module with ROUTERS. If the routes share state, the module
also has `Part`, a class that is constructed with the AppState. A part may have `works()`, the
coroutines that run as long as the service, and `why_kept(run_id)`, the reason why a run cannot be
deleted, or "".

LISTENER names a module with `sockets_of(settings)`, which listens, or returns [] if the protocol is
off; `open_listener(state, connections, sockets)`, which returns an object with `start()` and
`close(seconds)`; and `address(settings)` for the log.
"""

from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

from fastapi import APIRouter

from machine import extras

T = TypeVar("T")


class Parts:
    """The state of each extra that has one. state: the service's AppState."""

    def __init__(self, state: Any) -> None:
        kinds = [module.Part for module in extras.modules("SERVICE") if hasattr(module, "Part")]
        self._parts: dict[type[Any], Any] = {kind: kind(state) for kind in kinds}

    def __iter__(self) -> Iterator[Any]:
        return iter(self._parts.values())

    def get(self, kind: type[T]) -> T:
        """The part of this class."""
        part: T = self._parts[kind]
        return part

    def works(self) -> list[Coroutine[Any, Any, None]]:
        """The coroutines that run as long as the service."""
        return [work for part in self if hasattr(part, "works") for work in part.works()]

    def why_kept(self, run_id: str) -> str:
        """Why a run cannot be deleted now; "" if it can be."""
        reasons = [part.why_kept(run_id) for part in self if hasattr(part, "why_kept")]
        return next(filter(None, reasons), "")


def routers() -> list[APIRouter]:
    """The routes of all extras."""
    return [router for module in extras.modules("SERVICE") for router in module.ROUTERS]
