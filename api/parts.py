"""Additions of extras to the service: routes with their state, parts of the page, other protocols.

SERVICE (see `machine.extras`) names a module with ROUTERS. If the routes share state, the module
also has a class `Part`, which is constructed with the AppState. A part may have `works()`, the
coroutines that run as long as the service, and `why_kept(run_id)`, the reason why a run cannot be
deleted, or "".

PAGE names a folder, which is served as /page/EXTRA/. `part.html` contains pieces of HTML, each
below the slot of api/page/index.html that it fills. `part.css` contains the styles, and `part.js`
the class `Part` that api/page/page.js uses.

LISTENER names a module with `sockets_of(settings)`, which listens, or returns [] if the protocol is
off; `open_listener(state, connections, sockets)`, which returns an object with `start()` and
`close(seconds)`; and `address(settings)` for the log.
"""

from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

from fastapi import APIRouter

from machine import extras

T = TypeVar("T")
PAGE = Path(__file__).parent / "page"


class ExtraParts:
    """The state of each extra that has one. state: the service's AppState."""

    def __init__(self, state: object) -> None:
        kinds = [module.Part for module in extras.modules("SERVICE") if hasattr(module, "Part")]
        self._parts: dict[type[object], Any] = {kind: kind(state) for kind in kinds}

    def __iter__(self) -> Iterator[Any]:
        return iter(self._parts.values())

    def get(self, kind: type[T]) -> T:
        """The part of this class."""
        part: T = self._parts[kind]
        return part

    def works(self) -> list[Coroutine[None, None, None]]:
        """The coroutines that run as long as the service."""
        return [work for part in self if hasattr(part, "works") for work in part.works()]

    def why_kept(self, run_id: str) -> str:
        """Why a run cannot be deleted now; "" if it can be."""
        reasons = [part.why_kept(run_id) for part in self if hasattr(part, "why_kept")]
        return next(filter(None, reasons), "")


def routers() -> list[APIRouter]:
    """The routes of all extras."""
    return [router for module in extras.modules("SERVICE") for router in module.ROUTERS]


def page_folders() -> dict[str, Path]:
    """Extra -> folder of its part of the page."""
    return {
        entry.__name__.rpartition(".")[2]: Path(entry.__file__ or "").parent / entry.PAGE
        for entry in extras.entries()
        if hasattr(entry, "PAGE")
    }
