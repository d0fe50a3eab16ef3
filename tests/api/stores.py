"""A store of the service, as the common tests of stores use it."""

from collections.abc import Callable
from dataclasses import dataclass

import httpx

from tests.api.conftest import Running
from tests.api.sounds import file_of, speech, upload


def _nothing(service: Running) -> None:
    """A store that needs nothing else."""


@dataclass(frozen=True)
class Store:
    """path: of its list; word: in codes; folder: of its data.

    add: creates an item with a name. prepare: creates what an item needs first. deletes: whether an
    item can be deleted. named: whether a name may be any text. max_bytes: the largest body. grow:
    asks for the last gigabyte of the disk; None if items are small. changing: addresses whose
    content may change.
    """

    path: str
    word: str
    folder: str
    add: Callable[[Running, str], httpx.Response]
    prepare: Callable[[Running], None] = _nothing
    deletes: bool = True
    named: bool = True
    max_bytes: int = 21 << 20
    grow: Callable[[Running], httpx.Response] | None = None
    changing: Callable[[Running], list[str]] | None = None


def add_voice(service: Running, name: str) -> httpx.Response:
    return upload(service, file_of(speech()), name=name)


VOICES = Store(
    "/v1/voices",
    "voice",
    "voices",
    add_voice,
    changing=lambda service: [add_voice(service, "Anna").json()["preview"]],
)
