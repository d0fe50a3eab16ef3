"""A served voice with `speakers/`: real clients reach each person and style, and hear them.

The voice is a tiny one of random weights, spoken by the real speaking process; what a client hears
is what /v1/audio/speech says for that speaker, and no speaker sounds like another.
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from openai import OpenAI
from wyoming.event import Event
from wyoming.info import Describe, Info, TtsVoice
from wyoming.tts import SynthesizeVoice

from extras.wyoming.session import wanted_of
from tests.api.conftest import QUICK
from tests.api.heard import samples
from tests.extras.dialects import test_clients as clients
from tests.extras.dialects.test_clients import Talk
from tests.extras.wyoming.conftest import BothPorts, answered, both
from tests.models import tiny_voice
from tests.xtts.voices.test_speakers import named

NAMES = ("anna", "anna:whisper", "Ben")
Client = Callable[[BothPorts, str], bytes]


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BothPorts]:
    folder = tmp_path_factory.mktemp("named")
    voice = named(tiny_voice(folder / "voice"), *NAMES)
    limits = replace(QUICK, deadline=120.0, hang=60.0, queue=32)
    with both(folder, limits=limits, threads=1, voice=str(voice)) as found:
        yield found


@pytest.fixture(scope="module")
def own(ports: BothPorts) -> dict[str, set[bytes]]:
    """What each of them says, asked for by the field `voice`: as usual, and at the temperature of
    SillyTavern's slider."""

    def said(name: str, **more: float) -> bytes:
        body = {"input": clients.TEXT, "voice": name, "response_format": "pcm", **more}
        return ports.http.client.post("/v1/audio/speech", json=body).raise_for_status().content

    found = {name: {said(name), said(name, temperature=0.75)} for name in NAMES}
    assert sum(map(len, found.values())) == len(set.union(*found.values()))
    assert said("default") in found["anna"]
    return found


def dialect(ask: Callable[[Talk], bytes]) -> Client:
    """A client of the table, which finds the voice in its list by name."""

    def heard(ports: BothPorts, name: str) -> bytes:
        return samples(ask(Talk(ports.http.client, name, name)))

    return heard


def openai_client(ports: BothPorts, name: str) -> bytes:
    client = OpenAI(base_url=f"{ports.http.address}/v1", api_key="none", max_retries=0)
    answer = client.audio.speech.create(
        model="tts-1", input=clients.TEXT, voice=name, response_format="pcm"
    )
    return answer.content


def openai_style(ports: BothPorts, name: str) -> bytes:
    """The style apart from the person, as `instructions` have it."""
    client = OpenAI(base_url=f"{ports.http.address}/v1", api_key="none", max_retries=0)
    person, _, style = name.partition(":")
    answer = client.audio.speech.create(
        model="tts-1", input=clients.TEXT, voice=person, response_format="pcm",
        instructions=f"Please {style or 'speak'} to me.",
    )  # fmt: skip
    return answer.content


def wyoming(ports: BothPorts, **voice: str) -> bytes:
    event = Event("synthesize", {"text": clients.TEXT, "voice": voice})
    found = asyncio.run(answered(ports, event))
    assert found.error is None, found.error
    return found.pcm


def described(ports: BothPorts) -> list[TtsVoice]:
    told = asyncio.run(answered(ports, Describe(), last="info")).last
    assert told is not None
    return Info.from_event(told).tts[0].voices


def wyoming_name(ports: BothPorts, name: str) -> bytes:
    of = [one for one in described(ports) if one.description == name]
    return wyoming(ports, name=next(one.name for one in of if "en" in one.languages))


def wyoming_speaker(ports: BothPorts, name: str) -> bytes:
    served = next(one for one in described(ports) if "en" in one.languages)
    assert name in [one.name for one in served.speakers or ()]
    return wyoming(ports, name=served.name, speaker=name)


CLIENTS: dict[str, Client] = {
    "openai": openai_client,
    "openai, instructions": openai_style,
    "wyoming, name": wyoming_name,
    "wyoming, speaker": wyoming_speaker,
    "SillyTavern, XTTS": dialect(clients.sillytavern_xtts),
    "SillyTavern, XTTS, streaming": dialect(clients.sillytavern_xtts_streaming),
    "SillyTavern, AllTalk": dialect(clients.sillytavern_alltalk),
    "SillyTavern, AllTalk, streaming": dialect(clients.sillytavern_alltalk_streaming),
    "xtts-api-server": dialect(clients.xtts_api_server_curl),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_hears_the_speaker_and_the_style_it_asked_for(ports, own, client, name):
    assert CLIENTS[client](ports, name) in own[name]


def test_wyoming_lists_speakers_as_voices_and_of_the_served_voice(ports):
    voices = described(ports)
    assert set(NAMES) < {one.description for one in voices}
    served = [one for one in voices if one.speakers]
    assert len({one.description for one in served}) == 1
    assert all([of.name for of in one.speakers or ()] == list(NAMES) for one in served)


def test_wyoming_refuses_a_speaker_that_is_not_there_by_name(ports):
    for speaker, code in (("bob", "no_voice"), ("anna:loud", "no_style")):
        voice = {"name": "Ben", "speaker": speaker}
        event = Event("synthesize", {"text": "hello", "voice": voice})
        error = asyncio.run(answered(ports, event, last="error")).error
        assert error is not None and error.code == code


def test_wyoming_speaks_as_a_speaker_in_the_language_of_the_voice_beside_it():
    labels = {"demo": "default", "ben": "ben"}
    voice = SynthesizeVoice(name="demo (pt)", speaker="ben")
    assert wanted_of(voice, labels, ["en", "pt"]) == ("ben", "pt")
    assert wanted_of(SynthesizeVoice(speaker="ben"), labels, ["en", "pt"]) == ("ben", None)
