"""Speech over HTTP with a fake child: answers, refusals, cut-offs and disconnects."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import httpx
import pytest

from api import gate
from api.app import build
from api.engine.queue import SpeechStream
from api.metrics import ServiceMetrics
from api.speech.speaking import SoundForm, SpeechResponse
from tests.api.conftest import QUICK, running, settings_in
from tests.api.heard import refused, said, samples
from tests.api.raw import connected, request
from xtts.inference.synthesis_request import SynthesisRequest

TEXT = "Good morning, how did you sleep?"


FORMATS = "'wav', 'pcm', 'flac', 'mp3', 'opus', 'aac' or 'm4a'"
INVALID, NO_VOICE = (422, "invalid_request"), (404, "no_voice")


@pytest.mark.parametrize(
    ("body", "expected", "param", "words"),
    [
        ({}, INVALID, "input", "input is missing."),
        ({"input": ""}, INVALID, "input", "input should have at least 1 character, not 0."),
        ({"input": "x" * 4097}, INVALID, "input", "should have at most 4096 characters, not 4,097."),
        ({"input": 5}, INVALID, "input", "input should be a valid string, not 5."),
        ({"input": None}, INVALID, "input", ""),
        ({"input": "!refuse"}, (422, "refused"), None, ""),
        ({"speed": 9}, INVALID, "speed", "speed should be less than or equal to 4, not 9."),
        ({"temperature": -1}, INVALID, "temperature", ""),
        ({"temperature": "hot"}, INVALID, "temperature", "should be a valid number, not 'hot'."),
        ({"seed": -1}, INVALID, "seed", "seed should be greater than or equal to 0, not -1."),
        ({"seed": 1.5}, INVALID, "seed", "seed should be a valid integer, not 1.5."),
        ({"response_format": "midi"}, INVALID, "response_format", f"should be {FORMATS}, not 'midi'."),
        ({"language": "tlh"}, (400, "language_unsupported"), "language", "voice speaks en, pt."),
        ({"lang_code": "tlh"}, (400, "language_unsupported"), "lang_code", "is 'tlh'"),
        ({"model": 5}, INVALID, "model", ""),
        ({"stream": "yes"}, INVALID, "stream", ""),
        ({"voice": 5}, INVALID, "voice", "voice should be a valid string, not 5."),
        ({"voice": ""}, INVALID, "voice", "voice should have at least 1 character, not 0."),
        ({"voice": "nobody"}, NO_VOICE, "voice", "There is no voice with this id or name"),
        ({"voice": "../../etc/passwd"}, NO_VOICE, "voice", ""),
        ({"voice": {"id": "0123456789ab"}}, NO_VOICE, "voice", ""),
        ({"voice": "af_bella+af_sky"}, (400, "unsupported"), "voice", "a mixture of voices"),
    ],
)
def test_what_is_refused_and_how(shared_service, body, expected, param, words):
    whole = {"response_format": "wav", **({"input": "x"} if body else {}), **body}
    answer = shared_service.client.post("/v1/audio/speech", json=whole)
    told = answer.json()
    assert (answer.status_code, told["code"], told.get("param")) == (*expected, param)
    assert answer.headers["content-type"] == "application/problem+json"
    assert told["status"] == expected[0] and told["title"] and words in told["detail"]
    assert told["request_id"] == answer.headers["x-request-id"]
    assert told["error"]["message"] == told["detail"] and told["error"]["code"] == expected[1]
    assert "/etc" not in answer.text


@pytest.mark.parametrize("hears", [True, False])
def test_a_client_that_goes_away_frees_its_slot(shared_service, hears):
    engine = shared_service.state.engine
    asked = request("POST /v1/audio/speech", {"input": "z" * 4000, "response_format": "pcm"})
    with connected(shared_service.port, asked) as client:
        shared_service.wait_until(lambda: bool(engine.requests.speaking))
        if hears:
            assert client.recv(100)
    started = time.monotonic()
    shared_service.wait_until(lambda: not list(engine.requests), 5)
    assert time.monotonic() - started < 1.0


def test_more_than_there_is_room_for_is_refused_quickly(tmp_path):
    with running(settings_in(tmp_path), limits=replace(QUICK, slots=2, queue=3)) as service:
        with ThreadPoolExecutor(12) as pool:
            answers = list(pool.map(lambda seed: service.say("w" * 300, seed=seed), range(12)))
        late = [answer for answer in answers if answer.status_code == 503]
        assert {answer.headers["retry-after"] for answer in late} == {"5"}
        service.wait_until(lambda: service.counted("tts_requests_total", code="503") == len(late))
        assert len([answer for answer in answers if answer.status_code == 200]) >= 4
        assert {answer.json()["code"] for answer in late} == {"queue_full"}


def test_sixteen_at_once_and_none_is_mixed(tmp_path):
    with running(settings_in(tmp_path), limits=replace(QUICK, slots=16)) as service:
        with ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(lambda seed: service.say(TEXT, seed=seed), range(16)))
        assert [samples(answer.content) for answer in answers] == [said(TEXT, seed) for seed in range(16)]


def test_head_is_get_without_a_body(shared_service):
    for path in (
        "/",
        "/livez",
        "/status",
        "/v1/voices",
        "/v1/models",
        "/v1/runs",
        "/nothing",
        "/openapi.json",
        "/page/page.js",
        "/v1/audio/speech",
    ):
        head, got = shared_service.client.head(path), shared_service.client.get(path)
        assert (head.status_code, head.content) == (got.status_code, b""), path
        assert head.headers["content-type"] == got.headers["content-type"]
    # An endless GET has a HEAD that ends.
    assert shared_service.client.head("/events", timeout=10).status_code == 200
    assert "HEAD" in shared_service.client.post("/v1/models").headers["allow"]


def test_openapi_tells_of_the_key_of_faults_and_whole_bounds(tmp_path):
    with_key, open_ = (build(settings_in(tmp_path, api_key=key)).openapi() for key in ("k", None))
    ((name, scheme),) = with_key["components"]["securitySchemes"].items()
    assert scheme["scheme"] == "bearer"
    assert with_key["security"] == [{name: []}] and {} in open_["security"]
    assert with_key["paths"]["/livez"]["get"]["security"] == []
    seed = with_key["components"]["schemas"]["SpeechRequest"]["properties"]["seed"]["anyOf"][0]
    assert (seed["maximum"], type(seed["maximum"])) == (2**63 - 1, int)
    operations = [described for every in with_key["paths"].values() for described in every.values()]
    assert all({"500", "507"} <= set(operation["responses"]) for operation in operations)


def test_a_body_that_is_too_large_is_refused_however_it_comes(shared_service):
    def pieces():
        for _ in range(100):
            yield b" " * 1000

    for content in (b" " * 100_000, pieces()):
        try:
            answer = shared_service.client.post("/v1/audio/speech", content=content)
            assert answer.status_code == 413
        except httpx.WriteError:  # refused during the upload
            pass


def test_a_slow_body_is_given_up(shared_service, monkeypatch):
    monkeypatch.setattr(gate, "_TEXT_LIMIT", gate._TEXT_LIMIT._replace(seconds=0.3))

    def pieces():
        yield b'{"input": '
        time.sleep(1.0)
        yield b'"x"}'

    headers = {"content-type": "application/json"}
    answer = shared_service.client.post("/v1/audio/speech", content=pieces(), headers=headers)
    assert refused(answer) == (408, "slow_body")


def test_a_stream_that_breaks_is_no_whole_one_and_the_log_names_its_request(service, caplog):
    body = {"input": "!cufft and more text than three steps", "response_format": "pcm"}
    with service.client.stream("POST", "/v1/audio/speech", json=body) as answer:
        with pytest.raises(httpx.RemoteProtocolError):
            answer.read()
    (told,) = [record.getMessage() for record in caplog.records if "stream ended early" in record.msg]
    assert told.startswith(f"Request {answer.headers['x-request-id']}: ")


def test_who_speaks_finishes_when_the_service_is_stopped(tmp_path):
    answers: list[bytes] = []
    text = "a" * 200

    def speak(address):
        body = {"input": text, "response_format": "pcm"}
        asked = httpx.post(f"{address}/v1/audio/speech", json=body, timeout=60, trust_env=False)
        answers.append(asked.content)

    with running(settings_in(tmp_path)) as service:
        speaking = threading.Thread(target=speak, args=(service.address,))
        speaking.start()
        service.wait_until(lambda: bool(service.state.engine.requests.speaking))
    speaking.join()
    assert answers == [said(text)]


def test_a_client_that_takes_nothing_is_let_go_without_an_error(monkeypatch, caplog):
    """Its slot is freed, and the log has a line instead of a traceback."""
    monkeypatch.setattr("api.speech.speaking._SEND_SECONDS", 0.05)
    cancelled: list[SpeechStream] = []
    state = SimpleNamespace(engine=SimpleNamespace(cancel=cancelled.append), metrics=ServiceMetrics())
    spoken = SpeechStream(SynthesisRequest("x", "en"))
    spoken.put(b"\0\0")

    async def send(message):
        if message["type"] == "http.response.body":
            await asyncio.sleep(60)

    async def receive():
        await asyncio.sleep(60)
        return {"type": "http.disconnect"}

    asyncio.run(SpeechResponse(spoken, SoundForm("pcm", "stream"), state)({"type": "http"}, receive, send))  # type: ignore[arg-type]
    assert cancelled == [spoken] and "read nothing for 0.05 s" in caplog.text
