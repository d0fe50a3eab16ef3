"""A served voice with `speakers/`: OpenAI's client reaches each person and style."""

from collections.abc import Callable, Iterator

import pytest
from openai import OpenAI

from tests.api.conftest import Running, running, settings_in
from tests.api.named_speakers import LIMITS, NAMES, TEXT, own_sounds, voice_in


@pytest.fixture(scope="module")
def speaking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("named")
    settings = settings_in(folder, voice=voice_in(folder))
    with running(settings, limits=LIMITS, threads=1) as service:
        yield service


@pytest.fixture(scope="module")
def speaker_sounds(speaking: Running) -> dict[str, set[bytes]]:
    return own_sounds(speaking)


def openai_voice(service: Running, name: str) -> bytes:
    client = OpenAI(base_url=f"{service.address}/v1", api_key="none", max_retries=0)
    answer = client.audio.speech.create(model="tts-1", input=TEXT, voice=name, response_format="pcm")
    return answer.content


def openai_style(service: Running, name: str) -> bytes:
    """Requests the style through `instructions` and the person through `voice`."""
    client = OpenAI(base_url=f"{service.address}/v1", api_key="none", max_retries=0)
    person, _, style = name.partition(":")
    answer = client.audio.speech.create(
        model="tts-1",
        input=TEXT,
        voice=person,
        response_format="pcm",
        instructions=f"Please {style or 'speak'} to me.",
    )
    return answer.content


CLIENTS: dict[str, Callable[[Running, str], bytes]] = {
    "openai": openai_voice,
    "openai, instructions": openai_style,
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_hears_the_speaker_and_the_style_it_asked_for(speaking, speaker_sounds, client, name):
    assert CLIENTS[client](speaking, name) in speaker_sounds[name]
