"""Every route that sends sound: speech of a voice is marked, and a recording of a person is not."""

import base64
import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from api.app import build
from tests.api.conftest import PATIENT, Running, running, settings_in
from tests.api.judged_run import CANDIDATES, write_judged_run
from tests.api.sounds import file_of, speech, upload
from tests.installed import tables
from tests.marked import comment
from xtts.encoding import MEDIA_TYPES
from xtts.marks import HEADER, Mark

TEXT = "Good morning."
# An answer with the file of its sound; None where a test of the file's writer reads the mark.
Sound = tuple[httpx.Response, bytes | None]
Row = Callable[[Running], Iterator[Sound]]


def spoken(service: Running, path: str = "/v1/audio/speech", voice: str = "default") -> Iterator[Sound]:
    body = {"input": TEXT, "voice": voice}
    for form in MEDIA_TYPES:
        for more in ({}, {"stream": True}):
            answer = service.client.post(path, json={**body, "response_format": form, **more})
            yield answer, answer.content if form != "pcm" else None
    events = service.client.post(path, json={**body, "stream_format": "sse"})
    rows = [json.loads(line[6:]) for line in events.text.splitlines() if line.startswith("data: ")]
    yield events, b"".join(base64.b64decode(row.get("audio", "")) for row in rows)


def of_candidate(service: Running) -> Iterator[Sound]:
    yield from spoken(service, f"{CANDIDATES}/epoch_2/speech")


def got(path: str) -> Row:
    def sounds(service: Running) -> Iterator[Sound]:
        yield service.client.get(path), None

    return sounds


def of_voice(service: Running) -> Iterator[Sound]:
    voice = upload(service, file_of(speech()), name="Zoë").json()["id"]
    yield service.client.get(f"/v1/voices/{voice}/preview.wav"), None


SAMPLE = "/v1/runs/{run_id}/epochs/{epoch}/{which}.wav"
SPOKEN: dict[tuple[str, str], Row] = {
    ("POST", "/v1/audio/speech"): spoken,
    ("GET", SAMPLE): got("/v1/runs/current/epochs/1/output.wav"),
    ("GET", "/v1/runs/{run_id}/candidates/{candidate}/sentences/{number}.wav"): got(
        f"{CANDIDATES}/epoch_1/sentences/0.wav"
    ),
    ("POST", "/v1/runs/{run_id}/candidates/{candidate}/speech"): of_candidate,
}
RECORDED: dict[tuple[str, str], Row] = {
    ("GET", "/v1/voices/{voice_id}/preview.wav"): of_voice,
    ("GET", SAMPLE): got("/v1/runs/current/epochs/1/reference.wav"),
}
# ZIP files, whose preview.wav is marked: tests/api/routes/test_voice_files.py.
PACKED = {("GET", "/v1/voices/{voice_id}/file"), ("GET", "/v1/runs/{run_id}/file")}
for table in tables("sounds"):
    SPOKEN |= table.SPOKEN
    RECORDED |= table.RECORDED


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("marks")
    write_judged_run(folder)
    with running(settings_in(folder), limits=PATIENT) as opened:
        yield opened


def sends_sound(operation: dict[str, Any]) -> bool:
    content = operation["responses"].get("200", {}).get("content", {})
    return "speech" in operation.get("tags", []) or any(
        media_type.startswith("audio/") for media_type in content
    )


def test_every_route_that_sends_sound_is_in_a_table(tmp_path):
    document = build(settings_in(tmp_path)).openapi()
    sends = {
        (method.upper(), path)
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        if sends_sound(operation)
    }
    assert sends == SPOKEN.keys() | RECORDED.keys() | PACKED


@pytest.mark.parametrize("route", SPOKEN, ids=" ".join)
def test_speech_is_marked(service, route):
    count = 0
    for answer, sound in SPOKEN[route](service):
        assert answer.status_code == 200, answer.text
        assert answer.headers[HEADER].startswith("AI-generated speech; "), answer.request.url
        if sound is not None:
            assert comment(sound).startswith("AI-generated speech; voice: ")
        count += 1
    assert count


@pytest.mark.parametrize("route", RECORDED, ids=" ".join)
def test_a_recording_is_not(service, route):
    for answer, _ in RECORDED[route](service):
        assert answer.status_code == 200, answer.text
        assert HEADER not in answer.headers and comment(answer.content) == ""


def test_the_mark_names_the_voice_and_no_id(service):
    voice = upload(service, file_of(speech(3.0)), name="Ânna").json()["id"]
    for voice_name, name in ((voice, "Ânna"), ("ânna", "Ânna"), ("alloy", service.state.served_name)):
        answer = service.say(TEXT, voice=voice_name)
        assert comment(answer.content) == answer.headers[HEADER] == Mark(name).text
