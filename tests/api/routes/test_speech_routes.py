"""Speaking over HTTP with a fake child: what is sent, refused, cut off and let go."""

import asyncio
import base64
import io
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile

from api import gate
from api.app import build
from api.engine.queue import QueuedRequest
from api.engine.speech_stream import SpeechStream
from api.metrics import ServiceMetrics
from api.speech.speaking import SoundForm, SpeechResponse
from tests.api.conftest import QUICK, Running, running, settings_in
from tests.api.fake_child import sound_of
from xtts.inference.synthesis_request import SynthesisRequest

TEXT = "Good morning, how did you sleep?"


def wanted(text: str, seed: int = 0) -> bytes:
    return b"".join(sound_of(text, seed, number) for number in range(len(text)))


def samples(data: bytes) -> np.ndarray:
    return soundfile.read(io.BytesIO(data), dtype="int16")[0]


def test_pcm_is_what_the_child_said_and_comes_in_pieces(service: Running) -> None:
    body = {"input": TEXT, "response_format": "pcm", "seed": 7}
    with service.client.stream("POST", "/v1/audio/speech", json=body) as answer:
        assert answer.headers["content-type"] == "audio/pcm"
        assert "content-length" not in answer.headers
        pieces = list(answer.iter_raw())
    assert b"".join(pieces) == wanted(TEXT, 7)
    assert len(pieces) > 1


def test_wav_says_how_long_it_is(service: Running) -> None:
    answer = service.say(TEXT)
    assert answer.headers["content-type"] == "audio/wav"
    assert samples(answer.content).astype("<i2").tobytes() == wanted(TEXT)
    assert soundfile.info(io.BytesIO(answer.content)).samplerate == 24_000


def test_a_streamed_wav_is_open_ended_and_read_all_the_same(service: Running) -> None:
    answer = service.say(TEXT, stream_format="audio")
    assert answer.content[44:] == wanted(TEXT)
    assert samples(answer.content).tobytes() == wanted(TEXT)


@pytest.mark.parametrize("form", ["flac", "mp3", "opus"])
def test_the_other_formats_hold_as_much_sound(service: Running, form: str) -> None:
    answer = service.say(TEXT, response_format=form)
    seconds = len(samples(answer.content)) / 24_000
    assert seconds == pytest.approx(len(TEXT) * 0.02, abs=0.12)


def test_mp3_is_what_is_sent_where_nothing_is_asked_for(service: Running) -> None:
    answer = service.client.post("/v1/audio/speech", json={"input": TEXT})
    assert answer.headers["content-type"] == "audio/mpeg"


def test_sse_is_openais(service: Running) -> None:
    answer = service.say(TEXT, response_format="pcm", stream_format="sse")
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [json.loads(line[6:]) for line in answer.text.split("\n\n") if line]
    kinds = [event["type"] for event in events]
    assert set(kinds[:-1]) == {"speech.audio.delta"} and kinds[-1] == "speech.audio.done"
    audio = b"".join(base64.b64decode(event["audio"]) for event in events[:-1])
    assert audio == wanted(TEXT)
    assert events[-1]["usage"]["input_tokens"] == len(TEXT)


@pytest.mark.parametrize(
    ("body", "status", "code", "param"),
    [
        ({"input": ""}, 422, "invalid_request", "input"),
        ({"input": "x" * 4097}, 422, "invalid_request", "input"),
        ({}, 422, "invalid_request", "input"),
        ({"input": 5}, 422, "invalid_request", "input"),
        ({"input": "x", "speed": 9}, 422, "invalid_request", "speed"),
        ({"input": "x", "temperature": -1}, 422, "invalid_request", "temperature"),
        ({"input": "x", "seed": -1}, 422, "invalid_request", "seed"),
        ({"input": "x", "seed": 1.5}, 422, "invalid_request", "seed"),
        ({"input": "x", "response_format": "midi"}, 422, "invalid_request", "response_format"),
        ({"input": "x", "language": "tlh"}, 400, "language_unsupported", "language"),
        ({"input": "x", "lang_code": "tlh"}, 400, "language_unsupported", "lang_code"),
        ({"input": "x", "model": 5}, 422, "invalid_request", "model"),
        ({"input": "x", "stream": "yes"}, 422, "invalid_request", "stream"),
        ({"input": "x", "voice": "nobody"}, 404, "no_voice", "voice"),
        ({"input": "x", "voice": "../../etc/passwd"}, 404, "no_voice", "voice"),
        ({"input": "x", "voice": {"id": "0123456789ab"}}, 404, "no_voice", "voice"),
        ({"input": "x", "voice": "af_bella+af_sky"}, 400, "unsupported", "voice"),
        ({"input": None}, 422, "invalid_request", "input"),
        ({"input": "!refuse"}, 422, "refused", None),
    ],
)
def test_what_is_refused_and_how(
    service: Running, body: dict[str, Any], status: int, code: str, param: str | None
) -> None:
    answer = service.client.post("/v1/audio/speech", json={"response_format": "wav", **body})
    told = answer.json()
    assert (answer.status_code, told["code"], told.get("param")) == (status, code, param)
    assert answer.headers["content-type"] == "application/problem+json"
    assert told["status"] == status and told["title"] and told["detail"]
    assert told["request_id"] == answer.headers["x-request-id"]
    assert told["error"]["message"] == told["detail"] and told["error"]["code"] == code
    assert "/etc" not in answer.text


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'"x"', b"\xff\xfe", b"[" * 50_000])
def test_what_is_no_json_object_is_refused(service: Running, body: bytes) -> None:
    headers = {"content-type": "application/json"}
    answer = service.client.post("/v1/audio/speech", content=body, headers=headers)
    assert answer.status_code in (400, 422), answer.text


def test_every_name_of_openai_is_the_served_voice(service: Running) -> None:
    for voice in ("alloy", "onyx", {"id": "nova"}, "default"):
        for model in ("tts-1", "tts-1-hd", "gpt-4o-mini-tts", "sotaque"):
            assert service.say("hello", voice=voice, model=model).content


def test_a_client_that_goes_away_frees_its_slot(service: Running) -> None:
    body = json.dumps({"input": "z" * 4000, "response_format": "pcm"}).encode()
    host, port = service.address.removeprefix("http://").split(":")
    engine = service.parts.engine
    for wait_for_sound in (True, False):
        with socket.create_connection((host, int(port))) as client:
            client.sendall(
                b"POST /v1/audio/speech HTTP/1.1\r\nhost: localhost\r\n"
                b"content-type: application/json\r\n"
                b"content-length: %d\r\n\r\n%s" % (len(body), body)
            )
            service.wait_until(lambda: bool(engine.waiting.speaking))
            if wait_for_sound:
                assert client.recv(100)
        started = time.monotonic()
        service.wait_until(lambda: not engine.waiting.speaking and not engine.spoken, 5)
        assert time.monotonic() - started < 1.0


def test_more_than_there_is_room_for_is_refused_quickly(tmp_path: Path) -> None:
    limits = replace(QUICK, slots=2, queue=3)
    with running(settings_in(tmp_path), limits=limits) as service:
        service.wait_ready()

        def ask(number: int) -> tuple[int, str, float]:
            started = time.monotonic()
            answer = service.say("w" * 300, seed=number)
            if answer.status_code == 503:
                assert int(answer.headers["retry-after"]) >= 1
                return 503, answer.json()["code"], time.monotonic() - started
            return answer.status_code, "", time.monotonic() - started

        with ThreadPoolExecutor(12) as pool:
            found = list(pool.map(ask, range(12)))
        refused = [one for one in found if one[0] == 503]
        assert len([one for one in found if one[0] == 200]) >= 4
        assert {code for _, code, _ in refused} <= {"queue_full", "too_late"} and refused


def test_sixteen_at_once_and_none_is_mixed(tmp_path: Path) -> None:
    with running(settings_in(tmp_path), limits=replace(QUICK, slots=16)) as service:
        service.wait_ready()

        def ask(seed: int) -> bytes:
            return service.say(TEXT, seed=seed, response_format="pcm").content

        with ThreadPoolExecutor(16) as pool:
            found = list(pool.map(ask, range(16)))
        assert found == [wanted(TEXT, seed) for seed in range(16)]


def test_a_key_is_asked_for_everywhere_but_by_probes(tmp_path: Path) -> None:
    with running(settings_in(tmp_path, api_key="a secret of the tests")) as service:
        service.wait_ready()
        client = service.client
        for path in ("/status", "/v1/runs", "/v1/voices", "/v1/models", "/metrics", "/",
                     "/openapi.json", "/nothing"):  # fmt: skip
            answer = client.get(path)
            assert answer.status_code == 401, path
            assert answer.headers["www-authenticate"] == "Bearer"
        assert client.get("/", headers={"accept": "text/html"}).status_code == 200
        for path in ("/livez", "/readyz"):
            assert client.get(path).status_code == 200
        assert service.say("x").status_code == 401
        for key, status in (("a secret of the tests", 200), ("wrong", 401), ("ü", 401)):
            header = f"Bearer {key}".encode()
            assert client.get("/status", headers={"authorization": header}).status_code == status


def test_head_is_get_without_a_body(service: Running) -> None:
    for path in ("/", "/livez", "/status", "/v1/voices", "/v1/models", "/v1/runs", "/nothing",
                 "/openapi.json", "/page/page.js", "/v1/audio/speech"):  # fmt: skip
        head, got = service.client.head(path), service.client.get(path)
        assert (head.status_code, head.content) == (got.status_code, b""), path
        assert head.headers["content-type"] == got.headers["content-type"]
    # What has no end for GET has one for HEAD.
    assert service.client.head("/events", timeout=10).status_code == 200
    assert "HEAD" in service.client.post("/v1/models").headers["allow"]


def test_openapi_tells_of_the_key_of_faults_and_whole_bounds(tmp_path: Path) -> None:
    bodies = {}
    for key in (None, "k"):
        app = build(settings_in(tmp_path, api_key=key))
        bodies[key] = app.openapi()
    with_key, open_ = bodies["k"], bodies[None]
    (name,) = with_key["components"]["securitySchemes"]
    assert with_key["components"]["securitySchemes"][name]["scheme"] == "bearer"
    assert with_key["security"] == [{name: []}] and {} in open_["security"]
    assert with_key["paths"]["/livez"]["get"]["security"] == []
    seed = with_key["components"]["schemas"]["SpeechRequest"]["properties"]["seed"]["anyOf"][0]
    assert (seed["maximum"], type(seed["maximum"])) == (2**63 - 1, int)
    for path, operations in with_key["paths"].items():
        for operation in operations.values():
            assert {"500", "507"} <= set(operation["responses"]), path


def test_a_page_of_another_site_may_not_ask(service: Running) -> None:
    evil = {"origin": "https://evil.example"}
    assert service.client.delete("/v1/promotion", headers=evil).status_code == 403
    own = {"origin": service.address}
    assert service.client.delete("/v1/promotion", headers=own).status_code == 200
    rebound = {"host": "evil.example:8005"}
    answer = service.client.get("/status", headers=rebound)
    assert (answer.status_code, answer.json()["code"]) == (403, "foreign_host")
    assert "access-control-allow-origin" not in service.client.get("/status", headers=evil).headers


def test_too_many_in_a_minute_are_told_when_to_come_back(tmp_path: Path) -> None:
    with running(settings_in(tmp_path, api_requests_per_minute=3)) as service:
        service.wait_ready()
        answers = [service.say("x") for _ in range(5)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429, 429]
        assert 1 <= int(answers[-1].headers["retry-after"]) <= 20
        assert answers[-1].json()["error"]["type"] == "rate_limit_error"


def test_a_body_that_is_too_large_is_refused_however_it_comes(service: Running) -> None:
    def pieces() -> Any:
        for _ in range(100):
            yield b" " * 1000

    for content in (b" " * 100_000, pieces()):
        try:
            answer = service.client.post("/v1/audio/speech", content=content)
            assert answer.status_code == 413
        except httpx.WriteError:  # it was refused while it was sent
            pass


def test_a_slow_body_is_given_up(service: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "_TEXT", replace(gate._TEXT, seconds=0.3))

    def pieces() -> Any:
        yield b'{"input": '
        time.sleep(1.0)
        yield b'"x"}'

    headers = {"content-type": "application/json"}
    answer = service.client.post("/v1/audio/speech", content=pieces(), headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (408, "slow_body")


def test_a_stream_that_breaks_is_no_whole_one_and_the_log_names_its_request(
    service: Running, caplog: pytest.LogCaptureFixture
) -> None:
    body = {"input": "!cufft and more text than three steps", "response_format": "pcm"}
    with service.client.stream("POST", "/v1/audio/speech", json=body) as answer:
        with pytest.raises(httpx.RemoteProtocolError):
            answer.read()
    (told,) = [one.getMessage() for one in caplog.records if "stream was cut off" in one.msg]
    assert told.startswith(f"Request {answer.headers['x-request-id']}: ")


def test_who_speaks_finishes_when_the_service_is_stopped(tmp_path: Path) -> None:
    answers: list[bytes] = []
    text = "a" * 200

    def speak(address: str) -> None:
        body = {"input": text, "response_format": "pcm"}
        asked = httpx.post(f"{address}/v1/audio/speech", json=body, timeout=60, trust_env=False)
        answers.append(asked.content)

    with running(settings_in(tmp_path)) as service:
        service.wait_ready()
        speaking = threading.Thread(target=speak, args=(service.address,))
        speaking.start()
        service.wait_until(lambda: bool(service.parts.engine.waiting.speaking))
    speaking.join()
    assert answers == [wanted(text)]


def test_a_client_that_takes_nothing_is_let_go_without_an_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its slot is free again; in the log it is a line, not a traceback."""
    monkeypatch.setattr("api.speech.speaking._SEND_SECONDS", 0.05)
    cancelled: list[SpeechStream] = []
    parts = SimpleNamespace(
        engine=SimpleNamespace(cancel=cancelled.append), metrics=ServiceMetrics()
    )
    spoken = SpeechStream(QueuedRequest("s1", "", 0.0, 9.0), SynthesisRequest("x", "en"), None)
    spoken.put(b"\0\0")

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.body":
            await asyncio.sleep(60)

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(60)
        return {"type": "http.disconnect"}

    asyncio.run(
        SpeechResponse(spoken, SoundForm("pcm", "stream"), parts)({"type": "http"}, receive, send)
    )  # type: ignore[arg-type]
    assert cancelled == [spoken] and "took nothing for 0.05 s" in caplog.text
