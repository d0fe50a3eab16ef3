"""What is refused is said in words that its writer understands."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from api.errors import sentence, without_paths
from api.schemas import SpeechRequest
from tests.api.conftest import Running, running, settings_in

JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "input is missing."),
        ({"input": ""}, "input is empty; at least 1 character is needed."),
        ({"input": "x" * 5000}, "input has 5,000 characters; at most 4,096 are taken."),
        ({"input": 5}, "input must be a text, and is 5."),
        ({"input": "x", "speed": 9}, "speed is 9.0; at most 4.0 is allowed."),
        ({"input": "x", "seed": -1}, "seed is -1; at least 0 is allowed."),
        ({"input": "x", "seed": 1.5}, "seed must be a whole number, and is 1.5."),
        ({"input": "x", "temperature": "hot"}, "temperature must be a number, and is 'hot'."),
        ({"input": "x", "voice": 5}, 'voice must be a text, or {"id": "…"}; it is 5.'),
        ({"input": "x", "voice": ""}, "voice is empty; at least 1 character is needed."),
        (
            {"input": "x", "response_format": "midi"},
            "response_format is 'midi'; allowed are 'wav', 'pcm', 'flac', 'mp3', 'opus', 'aac' or "
            "'m4a'.",
        ),
        ({"input": "x", "language": "tlh"}, "language is 'tlh'; this voice speaks en, pt."),
        (
            {"input": "x", "voice": "me"},
            "There is no voice of that id or name; /v1/voices lists them.",
        ),
        (["x"], 'The body must be a JSON object, such as {"input": "Good morning."}.'),
    ],
)
def test_fields(service: Running, body: Any, words: str) -> None:
    assert service.client.post("/v1/audio/speech", json=body).json()["detail"] == words


def test_fields_with_api_strict(tmp_path: Path) -> None:
    told = {
        "pitch is no field of this request. Leave it out.": {"input": "x", "pitch": 2},
        "There is no model 'gpt-9'; /v1/models lists them.": {"input": "x", "model": "gpt-9"},
    }
    with running(settings_in(tmp_path, api_strict=True)) as service:
        service.wait_ready()
        for words, body in told.items():
            answer = service.client.post("/v1/audio/speech", json=body)
            assert answer.json()["detail"] == words


@pytest.mark.parametrize(
    ("content", "kind", "status", "words"),
    [
        (b"{input: x}", "application/json", 400, "The body is no JSON: expecting property name"),
        (b"", "application/json", 422, "The request has no body."),
        (b'{"input": "x"}', "application/x-www-form-urlencoded", 415, "Send JSON, and say so:"),
        (b'{"input": "x"}', "text/plain", 415, "Send JSON, and say so: `Content-Type: applicat"),
        (b"\xff\xfe\x00", "application/json", 400, "The body is not what its Content-Type says."),
    ],
)
def test_bodies(service: Running, content: bytes, kind: str, status: int, words: str) -> None:
    answer = service.client.post(
        "/v1/audio/speech", content=content, headers={"content-type": kind}
    )
    assert (answer.status_code, answer.json()["detail"][: len(words)]) == (status, words)


def test_addresses(service: Running) -> None:
    told = service.client.get("/v1/audio/speech")
    assert told.json()["detail"] == "This address takes POST."
    assert told.headers["allow"] == "POST"
    told = service.client.put("/v1/voices/default")
    assert told.json()["detail"] == "This address takes DELETE and GET and HEAD and PATCH."
    told = service.client.get("/nothing")
    assert "/openapi.json lists what there is" in told.json()["detail"]
    told = service.client.get("/v1/runs/current/metrics", params={"since": "x"})
    assert told.json()["detail"] == "since must be a whole number, and is 'x'."


def test_our_own_addresses_are_no_paths() -> None:
    assert without_paths("/v1/voices lists them, /v1/../etc too") == (
        "/v1/voices lists them, /v1/../etc too"
    )
    for text in ("/v10/x", "/data/v1/x.pt", "/openapi/x", "~/v1/x"):
        assert without_paths(f"at {text} here") == f"at {text.rsplit('/', 1)[1]} here"


VALUES = st.none() | st.booleans() | st.floats() | st.integers() | st.text()
VALUES |= st.lists(st.integers(), max_size=2) | st.dictionaries(st.just("id"), st.text())


@given(st.dictionaries(st.sampled_from([*SpeechRequest.model_fields, "more"]), VALUES))
def test_every_fault_is_one_short_sentence(body: dict[str, Any]) -> None:
    try:
        SpeechRequest.model_validate(body)
    except ValidationError as error:
        for fault in error.errors():
            said = sentence(fault, str(fault["loc"][0]))
            assert said.endswith(".") and len(said) < 300 and "Input should" not in said, said
