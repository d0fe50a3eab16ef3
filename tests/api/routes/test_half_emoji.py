"""Half an emoji, which clients send that cut a text anywhere, as `\\ud83d` in JSON."""

import pytest

from tests.api.heard import asked, samples
from tests.api.sounds import file_of, speech

HALVES = ("\\ud83d", "\\ude00")


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("stream", ["true", "false"])
def test_the_rest_of_a_text_with_half_an_emoji_is_spoken(shared_service, stream, half):
    body = f'{{"input": "Good {half} morning.", "response_format": "wav", "stream": {stream}}}'
    with asked() as requests:
        answer = shared_service.client.post(
            "/v1/audio/speech", content=body, headers={"content-type": "application/json"}
        )
    assert answer.status_code == 200, answer.text
    assert [request.text for request, _ in requests] == ["Good  morning."]
    assert len(samples(answer.content)) > 0


@pytest.mark.parametrize(
    "field",
    [
        "voice",
        "model",
        "language",
        "lang_code",
        "response_format",
        "stream_format",
        "instructions",
        "no_field",
        "seed",
        "speed",
        "timestamp_granularities",
    ],
)
def test_half_an_emoji_in_any_other_field_is_no_fault_of_the_service(shared_service, field):
    body = f'{{"input": "Good morning.", "{field}": "a\\ud83d"}}'
    answer = shared_service.client.post(
        "/v1/audio/speech", content=body, headers={"content-type": "application/json"}
    )
    assert answer.status_code < 500, answer.text


@pytest.mark.parametrize("name", ["\\ud83d", "Anna\\ud83d"])
@pytest.mark.parametrize(
    ("method", "path"), [("PATCH", "/v1/voices/default"), ("PATCH", "/v1/voices/0123456789ab")]
)
def test_half_an_emoji_in_a_name_is_no_fault_of_the_service(shared_service, method, path, name):
    answer = shared_service.client.request(
        method, path, content=f'{{"name": "{name}"}}', headers={"content-type": "application/json"}
    )
    assert answer.status_code < 500, answer.text


def test_half_an_emoji_as_the_name_of_a_field_is_no_fault_of_the_service(shared_service):
    for path in ("/v1/audio/speech", "/v1/voices/default"):
        answer = shared_service.client.request(
            "PATCH" if "voices" in path else "POST",
            path,
            content='{"\\ud83d": "\\ud83d"}',
            headers={"content-type": "application/json"},
        )
        assert 400 <= answer.status_code < 500, (path, answer.text)


@pytest.mark.parametrize("field", ["model", "voice", "language", "lang_code"])
def test_half_an_emoji_in_a_name_or_a_language_is_left_out(shared_service, field):
    """As in a text: names are cut anywhere, too."""
    value = {"model": "tts-1", "voice": "default"}.get(field, "en")
    body = f'{{"input": "Good morning.", "{field}": "{value}\\ud83d"}}'
    answer = shared_service.client.post(
        "/v1/audio/speech", content=body, headers={"content-type": "application/json"}
    )
    assert answer.status_code == 200, answer.text


def test_half_an_emoji_in_a_new_name_is_left_out(shared_service):
    client = shared_service.client
    made = client.post(
        "/v1/voices", data={"name": "Half"}, files={"file": ("a.wav", file_of(speech()))}
    ).json()
    path = f"/v1/voices/{made['id']}"
    renamed = client.patch(
        path, content='{"name": "Hal\\ud83df"}', headers={"content-type": "application/json"}
    )
    assert renamed.json().get("name") == "Half", renamed.text
    nobody = client.patch(path, content='{"name": "\\ud83d"}', headers={"content-type": "application/json"})
    assert nobody.status_code == 422
    client.delete(path).raise_for_status()
