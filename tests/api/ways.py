"""A way to request speech, as the common tests of options use it."""

from collections.abc import Callable
from dataclasses import dataclass

import httpx

from tests.api.conftest import Running


@dataclass(frozen=True)
class Asked:
    """One request; empty fields are omitted, as clients do."""

    text: str = "hello"
    voice: str = ""
    language: str = ""
    speed: float | None = None


@dataclass(frozen=True)
class Doors:
    """http: the service; ports: of its other listeners, by the name of the setting."""

    http: Running
    ports: dict[str, int]


Answer = tuple[int, str]  # status and code; (200, "") for speech, Wyoming's status is 0 or 200


@dataclass(frozen=True)
class Way:
    """A kind of speech request.

    ask: sends one. fastest: the highest speed, None without one. by_name: whether it can use a
    voice's display name. longest: the character that is repeated for the longest text. empty: the
    code for an empty text.
    """

    name: str
    ask: Callable[[Doors, Asked], Answer]
    fastest: float | None = None
    by_name: bool = True
    longest: str = "\U00020000"
    empty: str = "invalid_request"


def answer_of(response: httpx.Response) -> Answer:
    return response.status_code, "" if response.is_success else response.json()["code"]


def given(**fields: object) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value not in ("", None)}


def openai(doors: Doors, request: Asked) -> Answer:
    fields = {"response_format": "wav", "voice": request.voice, "language": request.language}
    body = given(**fields, speed=request.speed)
    return answer_of(doors.http.client.post("/v1/audio/speech", json={"input": request.text, **body}))


OPENAI = Way("openai", openai, fastest=4.0)
