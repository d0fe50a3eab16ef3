"""A language added to the served voice, over Wyoming."""

import asyncio
from collections.abc import Iterator

import pytest
from wyoming.info import Describe, Info
from wyoming.tts import SynthesizeVoice

from tests.api.heard import asked
from tests.extras.wyoming.conftest import BothPorts, answered, both, say


@pytest.fixture(scope="module")
def greek(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BothPorts]:
    """Ready; the served voice speaks English, Portuguese and Greek."""
    voice = tmp_path_factory.mktemp("added") / "greek"
    voice.mkdir()
    with both(voice.parent, voice=str(voice)) as found:
        yield found


def test_it_is_listed(greek):
    told = asyncio.run(answered(greek, Describe(), last="info")).last
    (program,) = Info.from_event(told).tts
    assert [voice.languages for voice in program.voices] == [["en"], ["pt"], ["el"]]


def test_it_is_spoken(greek):
    with asked() as orders:
        for voice in (SynthesizeVoice(language="el"), SynthesizeVoice(name="greek (el)")):
            say(greek, "Καλημέρα.", voice)
    assert [ask.language for ask, _ in orders] == ["el", "el"]
