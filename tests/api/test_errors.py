"""What a refusal looks like: RFC 9457, OpenAI's shape where its clients ask, and no path in it."""

import json
from typing import Any

import pytest

from api.errors import PROBLEM, APIError, response, without_paths
from tests.api.conftest import Running


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
def test_paths_are_cut_down_to_the_name_of_the_file(told: str, shown: str) -> None:
    assert without_paths(told) == shown


def test_a_refusal_says_when_to_come_back_and_what_is_asked_for() -> None:
    assert APIError(503, "queue_full", "Later.", retry_after=7).headers == {"Retry-After": "7"}
    assert APIError(401, "unauthorized", "No.").headers == {"WWW-Authenticate": "Bearer"}
    assert str(APIError(404, "no_run", "There is none.")) == "There is none."


def body_of(refusal: APIError, path: str) -> dict[str, Any]:
    state: dict[str, Any] = {"request_id": "r1"}
    found = response(refusal, {"path": path, "state": state})
    assert found.media_type == PROBLEM and state["refused"] == refusal.code
    return dict(json.loads(bytes(found.body)))


def test_the_body_is_a_problem() -> None:
    refusal = APIError(422, "invalid_request", "/x/y.wav is no sound.", param="file")
    assert body_of(refusal, "/v1/runs") == {
        "type": "about:blank#invalid_request", "title": "Not with this input", "status": 422,
        "detail": "y.wav is no sound.", "code": "invalid_request", "request_id": "r1",
        "param": "file",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, "authentication_error"), (429, "rate_limit_error"), (503, "server_error"),
     (422, "invalid_request_error")],
)  # fmt: skip
def test_openais_clients_find_theirs_inside(status: int, kind: str) -> None:
    found = body_of(APIError(status, "some", "Why.", param="voice"), "/v1/audio/speech")
    assert found["error"] == {"message": "Why.", "type": kind, "code": "some", "param": "voice"}


@pytest.mark.parametrize(
    ("method", "path", "there"),
    [("POST", "/audio/speech", True), ("GET", "/models", True), ("GET", "/voices", True),
     ("GET", "/audio/speeches", False), ("POST", "/audio/speeches", False), ("GET", "/x", False)],
)  # fmt: skip
def test_an_address_without_v1_is_told_the_right_one(
    service: Running, method: str, path: str, there: bool
) -> None:
    """Many clients want the address with /v1, and are given it without."""
    answer = service.client.request(method, path, json={"input": "x"} if method == "POST" else None)
    assert answer.status_code in (404, 405)
    assert (f"its like is /v1{path}." in answer.json()["detail"]) is there
    assert answer.status_code == 404 or not there


@pytest.mark.parametrize("path", ["/api/tts-generate", "/api/previewvoice/", "/v1/voices"])
def test_json_where_a_form_is_taken_is_told_so(service: Running, path: str) -> None:
    answer = service.client.post(path, json={"text_input": "x", "voice": "x", "name": "x"})
    assert answer.status_code == 415 and "takes no JSON" in answer.json()["detail"]
    as_form = service.client.post(path, data={"other": "x"})
    assert as_form.status_code == 422 and "is missing" in as_form.json()["detail"]
