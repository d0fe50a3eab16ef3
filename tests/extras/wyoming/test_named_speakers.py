"""A served voice with `speakers/`: Wyoming's clients can choose each person and style."""

import asyncio
from collections.abc import Callable, Iterator

import pytest
from wyoming.event import Event
from wyoming.info import Describe, Info, TtsVoice
from wyoming.tts import SynthesizeVoice

from extras.wyoming.session import voice_and_language
from tests.api.named_speakers import LIMITS, NAMES, TEXT, own_sounds, voice_in
from tests.extras.wyoming.conftest import BothPorts, answered, both


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BothPorts]:
    folder = tmp_path_factory.mktemp("named")
    with both(folder, limits=LIMITS, threads=1, voice=voice_in(folder)) as found:
        yield found


@pytest.fixture(scope="module")
def own(ports: BothPorts) -> dict[str, set[bytes]]:
    return own_sounds(ports.http)


def wyoming(ports: BothPorts, **voice: str) -> bytes:
    event = Event("synthesize", {"text": TEXT, "voice": voice})
    found = asyncio.run(answered(ports, event))
    assert found.error is None, found.error
    return found.pcm


def described(ports: BothPorts) -> list[TtsVoice]:
    told = asyncio.run(answered(ports, Describe(), last="info")).last
    assert told is not None
    return Info.from_event(told).tts[0].voices


def wyoming_name(ports: BothPorts, name: str) -> bytes:
    of = [voice for voice in described(ports) if voice.description == name]
    return wyoming(ports, name=next(program.name for program in of if "en" in program.languages))


def wyoming_speaker(ports: BothPorts, name: str) -> bytes:
    served = next(voice for voice in described(ports) if "en" in voice.languages)
    assert name in [speaker.name for speaker in served.speakers or ()]
    return wyoming(ports, name=served.name, speaker=name)


CLIENTS: dict[str, Callable[[BothPorts, str], bytes]] = {"name": wyoming_name, "speaker": wyoming_speaker}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_hears_the_speaker_and_the_style_it_asked_for(ports, own, client, name):
    assert CLIENTS[client](ports, name) in own[name]


def test_it_lists_speakers_as_voices_and_of_the_served_voice(ports):
    voices = described(ports)
    assert set(NAMES) < {voice.description for voice in voices}
    served = [voice for voice in voices if voice.speakers]
    assert len({program.description for program in served}) == 1
    assert all([of.name for of in program.speakers or ()] == list(NAMES) for program in served)


def test_it_refuses_a_speaker_that_is_not_there_by_name(ports):
    for speaker, code in (("bob", "no_voice"), ("anna:loud", "no_style")):
        voice = {"name": "Ben", "speaker": speaker}
        event = Event("synthesize", {"text": "hello", "voice": voice})
        error = asyncio.run(answered(ports, event, last="error")).error
        assert error is not None and error.code == code


def test_it_speaks_as_a_speaker_in_the_language_of_the_voice_beside_it():
    labels = {"demo": "default", "ben": "ben"}
    voice = SynthesizeVoice(name="demo (pt)", speaker="ben")
    assert voice_and_language(voice, labels, ["en", "pt"]) == ("ben", "pt")
    assert voice_and_language(SynthesizeVoice(speaker="ben"), labels, ["en", "pt"]) == ("ben", None)
