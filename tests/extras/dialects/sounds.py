"""The routes of the dialects that send sound (`tests/api/test_marks.py`)."""

import base64
import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx

from extras.dialects.xtts_streaming_server import handle_of
from tests.api.conftest import Running

Sound = tuple[httpx.Response, bytes | None]
TEXT = "Good morning."
HANDLE = handle_of("default").model_dump()


def sent(
    method: str, path: str, sound: Callable[[httpx.Response], bytes | None], **given: Any
) -> Callable[[Running], Iterator[Sound]]:
    def sounds(service: Running) -> Iterator[Sound]:
        answer = service.client.request(method, path, **given)
        yield answer, sound(answer)

    return sounds


def body(answer: httpx.Response) -> bytes:
    return answer.content


def in_string(answer: httpx.Response) -> bytes:
    return base64.b64decode(answer.json())


def in_lines(answer: httpx.Response) -> bytes:
    lines = answer.text.splitlines()
    return b"".join(base64.b64decode(json.loads(line)["audio"]) for line in lines)


def elsewhere(_answer: httpx.Response) -> None:
    """The answer holds the address of the sound."""


def kept(key: str) -> Callable[[Running], Iterator[Sound]]:
    def sounds(service: Running) -> Iterator[Sound]:
        made = service.client.post("/api/tts-generate", data={"text_input": TEXT})
        answer = service.client.get(made.json()[key])
        yield answer, answer.content

    return sounds


STREAM = {"text": TEXT, "language": "en", **HANDLE}
SPOKEN = {
    ("POST", "/tts_to_audio/"): sent("POST", "/tts_to_audio/", body, json={"text": TEXT}),
    ("GET", "/tts_stream"): sent("GET", "/tts_stream", body, params={"text": TEXT}),
    ("POST", "/tts_stream"): sent("POST", "/tts_stream", body, json=STREAM),
    ("POST", "/tts"): sent("POST", "/tts", in_string, json=STREAM),
    ("POST", "/api/tts-generate"): sent("POST", "/api/tts-generate", elsewhere, data={"text_input": TEXT}),
    ("POST", "/api/previewvoice/"): sent("POST", "/api/previewvoice/", elsewhere, data={"voice": "default"}),
    ("GET", "/api/tts-generate-streaming"): sent(
        "GET", "/api/tts-generate-streaming", body, params={"text": TEXT}
    ),
    ("GET", "/audio/{name}"): kept("output_file_url"),
    ("GET", "/audiocache/{name}"): kept("output_cache_url"),
    ("GET", "/api/tts"): sent("GET", "/api/tts", body, params={"text": TEXT}),
    ("POST", "/api/tts"): sent("POST", "/api/tts", body, data={"text": TEXT}),
    ("POST", "/dev/captioned_speech"): sent("POST", "/dev/captioned_speech", in_lines, json={"input": TEXT}),
}
RECORDED: dict[tuple[str, str], Callable[[Running], Iterator[Sound]]] = {}
