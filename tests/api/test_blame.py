"""Refusals name the right cause.

A full disk is not the body's fault, a deleted voice not the text's, and an unknown path is unknown
whatever the size of its body.
"""

import errno
import json
import logging
import os
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.conftest import Running, running, settings_in
from tests.api.heard import refusal
from tests.api.paths import served
from tests.api.sounds import file_of, speech, upload
from tests.installed import has


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One service for all: no test leaves anything in it."""
    with running(settings_in(tmp_path_factory.mktemp("blame"))) as opened:
        yield opened


@pytest.fixture(scope="module")
def large() -> bytes:
    """Larger than the part of a form that is kept in memory (1 MB)."""
    return file_of(speech(30.0, 48_000), 48_000)


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (errno.ENOSPC, (507, "no_space")),
        (errno.EDQUOT, (507, "no_space")),
        (errno.EROFS, (500, "no_temporary_file")),
        (errno.EACCES, (500, "no_temporary_file")),
        (errno.EIO, (500, "no_temporary_file")),
    ],
)
@pytest.mark.parametrize("path", served("/v1/voices", "/clone_speaker"))
def test_a_temporary_folder_that_fails_is_not_the_body_s_fault(
    service, monkeypatch, caplog, large, path, number, told
):
    def failing(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(tempfile, "TemporaryFile", failing)
    field = "file" if path == "/v1/voices" else "wav_file"
    answer = service.client.post(path, files={field: ("x.wav", large)}, data={"name": "Bea"})
    assert refusal(answer)[:2] == told
    assert "TMPDIR" in answer.json()["detail"]
    (line,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert os.strerror(number) in line.getMessage() and answer.json()["request_id"] in line.message
    if number == errno.ENOSPC:  # with free space, it is kept
        monkeypatch.undo()
        form = {"files": {field: ("x.wav", large)}, "data": {"name": "Cleo"}}
        assert service.client.post(path, **form).is_success


@pytest.mark.parametrize("path", served("/v1/audio/speech", "/tts_to_audio/", "/v1/datasets"))
def test_json_in_another_encoding_is_told(service, path):
    body = json.dumps({"input": "Olá, José", "text": "Olá"}, ensure_ascii=False).encode("cp1252")
    answer = service.client.post(path, content=body, headers={"content-type": "application/json"})
    assert refusal(answer)[:2] == (400, "invalid_json")
    assert "not UTF-8: byte 0xe1 at position 13" in answer.json()["detail"]


def test_a_form_that_is_none_is_still_told(service):
    answer = service.client.post(
        "/v1/voices", content=b"nothing", headers={"content-type": "multipart/form-data; boundary=x"}
    )
    assert answer.status_code in (400, 422)


@pytest.mark.parametrize("in_text", [False, True])
def test_a_voice_that_is_deleted_while_its_request_waits_is_404(service, monkeypatch, in_text):
    voice = upload(service, file_of(speech()), name="Bea").json()
    asked = {"input": "!refuse [voice:Bea] it"} if in_text else {"voice": voice["id"]}
    body = {"input": "!refuse it", "response_format": "wav", **asked}
    stored = service.state.voices.find(voice["id"])
    engine, speak = service.state.engine, service.state.engine.speak

    def deleting(*given: Any) -> Any:
        service.state.voices.remove(stored)
        return speak(*given)

    if not in_text:  # with the voice present, the text is refused
        assert refusal(service.client.post("/v1/audio/speech", json=body))[:2] == (422, "refused")
    monkeypatch.setattr(engine, "speak", deleting)
    answer = service.client.post("/v1/audio/speech", json=body)
    assert refusal(answer) == (404, "no_voice", "voice")
    assert ".wav" not in answer.json()["detail"] and "deleted" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/v1/nothing", 404),
        ("PUT", "/nothing", 404),
        ("POST", "/audio/speech", 404),
        ("PATCH", "/v1/audio/speech", 405),
        ("POST", "/v1/audio/speech", 413),
    ],
)
def test_an_unknown_path_is_unknown_whatever_its_body(service, method, path, status):
    answer = service.client.request(method, path, content=bytes(1 << 20))
    assert answer.status_code == status, answer.text
    assert service.client.get("/livez").status_code == 200


def test_an_upgrade_of_a_path_without_sockets_is_answered_and_gives_no_advice(service, caplog):
    """Without an extra that has sockets it is plain HTTP."""
    headers = {
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    answer = service.client.get("/livez", headers=headers)
    assert answer.status_code == (404 if has("streams") else 200)
    assert not [message for message in caplog.messages if "websocket" in message.lower() or "pip" in message]
