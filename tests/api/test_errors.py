"""The form of a refusal: RFC 9457, OpenAI's shape for its clients, no path, and clear words."""

import json
from http import HTTPStatus
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from api.errors import PROBLEM_MEDIA_TYPE, APIError, fault_sentence, problem_response, without_paths
from api.routes.speech import SpeechRequest
from tests.api.paths import served
from xtts.arguments import SEED, SPEED, TEMPERATURE


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        ("/data/output/x.pt is damaged.", "x.pt is damaged."),
        ("It lies in '/home/ana/voices/'.", "It lies in 'voices'."),
        ("See ~/notes/a.txt, then go on.", "See a.txt, then go on."),
        ("Ask /v1/runs or /openapi.json.", "Ask /v1/runs or /openapi.json."),
        ("From /studio_speakers, or /clone_speaker.", "From /studio_speakers, or /clone_speaker."),
        ("6 km/h, and/or more; 1/2 of it.", "6 km/h, and/or more; 1/2 of it."),
        ("Look at https://example.org/a/b.", "Look at https://example.org/a/b."),
        ("The root is /.", "The root is /."),
        ("/v1/../etc too", "/v1/../etc too"),
        ("at /v10/x here", "at x here"),
        ("at /openapi/x here", "at x here"),
        ("at ~/v1/x here", "at x here"),
    ],
)
def test_paths_are_cut_down_to_the_name_of_the_file(told, shown):
    assert without_paths(told) == shown


def body_of(refusal: APIError, path: str) -> dict[str, Any]:
    state: dict[str, Any] = {"request_id": "r1"}
    answer = problem_response(refusal, {"path": path, "state": state})
    assert answer.media_type == PROBLEM_MEDIA_TYPE and state["refused"] == refusal.code
    return dict(json.loads(bytes(answer.body)))


def test_the_body_is_a_problem_and_headers_say_what_to_do():
    refusal = APIError(422, "invalid_request", "/x/y.wav is no sound.", param="file")
    assert body_of(refusal, "/v1/runs") == {
        "type": "about:blank#invalid_request",
        "title": HTTPStatus(422).phrase,
        "status": 422,
        "detail": "y.wav is no sound.",
        "code": "invalid_request",
        "request_id": "r1",
        "param": "file",
    }
    assert APIError(503, "queue_full", "Later.", retry_after=7).headers == {"Retry-After": "7"}
    assert APIError(401, "unauthorized", "No.").headers == {"WWW-Authenticate": "Bearer"}


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, "authentication_error"),
        (429, "rate_limit_error"),
        (503, "server_error"),
        (422, "invalid_request_error"),
    ],
)
def test_openais_clients_find_theirs_inside(status, kind):
    body = body_of(APIError(status, "some", "Why.", param="voice"), "/v1/audio/speech")
    assert body["error"] == {"message": "Why.", "type": kind, "code": "some", "param": "voice"}


@pytest.mark.parametrize(
    ("method", "path", "there"),
    [
        ("POST", "/audio/speech", True),
        ("GET", "/models", True),
        ("GET", "/voices", True),
        ("GET", "/audio/speeches", False),
        ("POST", "/audio/speeches", False),
        ("GET", "/x", False),
    ],
)
def test_an_address_without_v1_is_told_the_right_one(shared_service, method, path, there):
    """Many clients need the address with /v1 but are configured without it."""
    answer = shared_service.client.request(method, path, json={"input": "x"} if method == "POST" else None)
    assert answer.status_code in (404, 405)
    assert (f"Did you mean /v1{path}?" in answer.json()["detail"]) is there
    assert answer.status_code == 404 or not there


@pytest.mark.parametrize("path", served("/api/tts-generate", "/api/previewvoice/", "/v1/voices"))
def test_json_where_a_form_is_taken_is_told_so(shared_service, path):
    answer = shared_service.client.post(path, json={"text_input": "x", "voice": "x", "name": "x"})
    assert answer.status_code == 415 and "a form, not JSON" in answer.json()["detail"]
    as_form = shared_service.client.post(path, data={"other": "x"})
    assert as_form.status_code == 422 and "is missing" in as_form.json()["detail"]


@pytest.mark.parametrize(
    ("content", "kind", "status", "words"),
    [
        (b"{input: x}", "application/json", 400, "The body is not JSON: expecting property name"),
        (b"", "application/json", 422, "The request has no body."),
        (b'["x"]', "application/json", 422, "The body must be a JSON object, such as"),
        (b'{"input": "x"}', "application/x-www-form-urlencoded", 415, "Send JSON"),
        (b'{"input": "x"}', "text/plain", 415, "Send JSON with the header `Content-Type: applicat"),
        (b"\xff\xfe\x00", "application/json", 400, "The body is not UTF-16-LE: byte 0x00 at position 2"),
        (b"null", "application/json", 422, "The body must be a JSON object, such as"),
        (b"[" * 50_000, "application/json", 400, "The body does not match its Content-Type."),
    ],
)
def test_a_body_that_is_none_is_told_why(shared_service, content, kind, status, words):
    answer = shared_service.client.post("/v1/audio/speech", content=content, headers={"content-type": kind})
    assert (answer.status_code, answer.json()["detail"][: len(words)]) == (status, words)


def test_an_address_is_told_what_it_takes(shared_service):
    for method, path, words in (
        ("GET", "/v1/audio/speech", "This path takes POST."),
        ("PUT", "/v1/voices/default", "This path takes DELETE and GET and HEAD and PATCH."),
        ("GET", "/nothing", "/openapi.json lists the paths"),
        (
            "GET",
            "/v1/runs/current/metrics?since=x",
            "since should be a valid integer, unable to parse string as an integer, not 'x'.",
        ),
    ):
        assert words in shared_service.client.request(method, path).json()["detail"]
    assert shared_service.client.get("/v1/audio/speech").headers["allow"] == "POST"


def test_numbers_have_the_bounds_of_python():
    fields = SpeechRequest.model_json_schema()["properties"]
    for name, bounds in (("seed", SEED), ("speed", SPEED), ("temperature", TEMPERATURE)):
        (schema,) = [kind for kind in fields[name]["anyOf"] if kind["type"] != "null"]
        assert (schema["minimum"], schema["maximum"]) == (bounds.min, bounds.max)


VALUES = st.none() | st.booleans() | st.floats() | st.integers() | st.text()
VALUES |= st.lists(st.integers(), max_size=2) | st.dictionaries(st.just("id"), st.text())


@given(st.dictionaries(st.sampled_from([*SpeechRequest.model_fields, "more"]), VALUES))
def test_every_fault_is_one_short_sentence(body):
    try:
        SpeechRequest.model_validate(body)
    except ValidationError as error:
        for fault in error.errors():
            text = fault_sentence(fault, str(fault["loc"][0]))
            assert text.endswith(".") and len(text) < 300 and "Input should" not in text, text
