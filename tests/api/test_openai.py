"""The official `openai` client, unchanged, against a running server with the embedded voice."""

import json

import openai
import pytest
import soundfile
from openai import OpenAI

from tests.api.conftest import Running

TEXT = "Good morning."


@pytest.fixture
def client(real: Running) -> OpenAI:
    return OpenAI(base_url=f"{real.address}/v1", api_key="none is needed", max_retries=0)


def test_a_stream_is_the_same_sound_in_pieces(client: OpenAI, tmp_path) -> None:
    wanted = client.audio.speech.create(
        model="tts-1", voice="nova", input=TEXT, response_format="pcm"
    ).content
    pieces = []
    with client.audio.speech.with_streaming_response.create(
        model="tts-1", voice="nova", input=TEXT, response_format="pcm"
    ) as answer:
        pieces += list(answer.iter_bytes(4096))
    assert b"".join(pieces) == wanted and len(pieces) > 2
    with client.audio.speech.with_streaming_response.create(
        model="tts-1", voice="nova", input=TEXT, response_format="wav"
    ) as answer:
        answer.stream_to_file(tmp_path / "said.wav")
    assert soundfile.info(tmp_path / "said.wav").frames == len(wanted) // 2


def test_events(client: OpenAI) -> None:
    with client.audio.speech.with_streaming_response.create(
        model="gpt-4o-mini-tts", voice="nova", input=TEXT, response_format="pcm",
        stream_format="sse",
    ) as answer:  # fmt: skip
        lines = [line for line in answer.iter_lines() if line]
    events = [json.loads(line.removeprefix("data: ")) for line in lines]
    assert events[-1]["type"] == "speech.audio.done" and len(events) > 2


def test_what_is_more_than_openais_goes_in_the_extra_body(client: OpenAI) -> None:
    def said(**more: object) -> bytes:
        return client.audio.speech.create(
            model="tts-1", voice="nova", input=TEXT, response_format="pcm", extra_body=more
        ).content

    first = said(seed=1)
    assert said(seed=1) == first != said(seed=2, temperature=1.0)
    slow = client.audio.speech.create(
        model="tts-1", voice="nova", input=TEXT, response_format="pcm", speed=0.5,
        extra_body={"seed": 1},
    ).content  # fmt: skip
    assert len(slow) == pytest.approx(2 * len(first), rel=0.1)


def test_errors_are_raised_as_it_raises_openais(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="no voice of that id") as caught:
        client.audio.speech.create(model="tts-1", voice="nobody", input=TEXT)
    assert caught.value.code == "no_voice" and caught.value.param == "voice"
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("whisper-1")
    assert caught.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError, match="mixture of voices"):
        client.audio.speech.create(model="tts-1", voice="nova+echo", input=TEXT)
    with pytest.raises(openai.UnprocessableEntityError, match="nothing to speak"):
        client.audio.speech.create(model="tts-1", voice="nova", input="…!", response_format="wav")


def test_the_models_and_their_licence(client: OpenAI) -> None:
    models = list(client.models.list())
    assert {"sotaque", "tts-1"} <= {model.id for model in models}
    assert models[0].licence.startswith("MIT")
    assert client.models.retrieve("tts-1").id == "tts-1"
    assert client.models.retrieve("gpt-4o-mini-tts-2025-03-20").owned_by == "sotaque"
