"""The official `openai` client, unchanged, against a running server with the embedded voice."""

import json
from typing import Any

import openai
import pytest
import soundfile
from openai import OpenAI

from tests.api.conftest import Running

ASKED: dict[str, Any] = {"model": "tts-1", "voice": "nova", "input": "Good morning."}


@pytest.fixture
def client(real: Running) -> OpenAI:
    return OpenAI(base_url=f"{real.address}/v1", api_key="none is needed", max_retries=0)


def speech_of(client: OpenAI, **more: Any) -> bytes:
    return client.audio.speech.create(**ASKED, response_format="pcm", **more).content


def test_a_stream_is_the_same_sound_in_pieces_or_events(client, tmp_path):
    whole, stream = speech_of(client), client.audio.speech.with_streaming_response.create
    with stream(**ASKED, response_format="pcm") as answer:
        pieces = list(answer.iter_bytes(4096))
    assert b"".join(pieces) == whole and len(pieces) > 2
    with stream(**ASKED, response_format="wav") as answer:
        answer.stream_to_file(tmp_path / "said.wav")
    assert soundfile.info(tmp_path / "said.wav").frames == len(whole) // 2
    with stream(**ASKED, response_format="pcm", stream_format="sse") as answer:
        events = [json.loads(line.removeprefix("data: ")) for line in answer.iter_lines() if line]
    assert events[-1]["type"] == "speech.audio.done" and len(events) > 2


def test_what_is_more_than_openais_goes_in_the_extra_body(client):
    first = speech_of(client, extra_body={"seed": 1})
    assert speech_of(client, extra_body={"seed": 1}) == first
    assert speech_of(client, extra_body={"seed": 2, "temperature": 1.0}) != first
    slow = speech_of(client, speed=0.5, extra_body={"seed": 1})
    assert len(slow) == pytest.approx(2 * len(first), rel=0.1)


@pytest.mark.parametrize(
    ("more", "error", "code"),
    [
        ({"voice": "nobody"}, openai.NotFoundError, "no_voice"),
        ({"voice": "nova+echo"}, openai.BadRequestError, "unsupported"),
        ({"input": "…!"}, openai.UnprocessableEntityError, "refused"),
    ],
)
def test_errors_are_raised_as_it_raises_openais(client, more, error, code):
    with pytest.raises(error) as caught:
        client.audio.speech.create(**{**ASKED, **more}, response_format="wav")
    assert caught.value.code == code
    assert caught.value.param == "voice" or "voice" not in more


def test_the_models_and_their_licence(client):
    models = list(client.models.list())
    assert {"sotaque", "tts-1"} <= {model.id for model in models}
    assert models[0].licence == "MIT, https://spdx.org/licenses/MIT.html"
    assert client.models.retrieve("gpt-4o-mini-tts-2025-03-20").owned_by == "sotaque"
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("whisper-1")
    assert caught.value.code == "model_not_found"


@pytest.mark.parametrize("text", ["…", "—", "😊", "***", "?!"])
def test_a_stream_of_signs_alone_is_a_short_silence(service, text):
    """Agents stream a chat's text in chunks. A whole answer is refused, as before."""
    with service.client.stream(
        "POST", "/v1/audio/speech", json={"input": text, "response_format": "pcm"}
    ) as answer:
        sound = answer.read()
    assert answer.status_code == 200 and sound == bytes(len(sound)) and 0 < len(sound) <= 48_000
    events = service.client.post("/v1/audio/speech", json={"input": text, "stream_format": "sse"}).text
    assert "speech.audio.done" in events
