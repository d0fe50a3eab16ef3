"""What is refused is said in words that its writer understands."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from api.errors import sentence
from api.routes.speech import SpeechRequest
from tests.api.conftest import Running
from xtts.arguments import SEED, SPEED, TEMPERATURE

JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("content", "kind", "status", "words"),
    [
        (b"{input: x}", "application/json", 400, "The body is no JSON: expecting property name"),
        (b"", "application/json", 422, "The request has no body."),
        (b'["x"]', "application/json", 422, "The body must be a JSON object, such as"),
        (b'{"input": "x"}', "application/x-www-form-urlencoded", 415, "Send JSON, and say so:"),
        (b'{"input": "x"}', "text/plain", 415, "Send JSON, and say so: `Content-Type: applicat"),
        (b"\xff\xfe\x00", "application/json", 400, "The body is not what its Content-Type says."),
        (b"null", "application/json", 422, "The body must be a JSON object, such as"),
        (b"[" * 50_000, "application/json", 400, "The body is not what its Content-Type says."),
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


def test_numbers_have_the_bounds_of_python() -> None:
    fields = SpeechRequest.model_json_schema()["properties"]
    for name, bounds in (("seed", SEED), ("speed", SPEED), ("temperature", TEMPERATURE)):
        (said,) = [one for one in fields[name]["anyOf"] if one["type"] != "null"]
        assert (said["minimum"], said["maximum"]) == (bounds.least, bounds.most)


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
