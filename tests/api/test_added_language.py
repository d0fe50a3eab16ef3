"""A language that was added to the served voice, wherever programs ask for languages or name one.

With the fake child; the true one is asked in `tests/extras/languages/test_speaking.py`.
"""

import asyncio
from collections.abc import Iterator

import pytest
from wyoming.info import Describe, Info
from wyoming.tts import SynthesizeVoice

from tests.api.heard import asked, refusal
from tests.extras.studio.datasets.calls import Dataset
from tests.extras.wyoming.conftest import BothPorts, answered, both, say

SPEAKING = (
    "POST /v1/audio/speech json input language", "POST /tts_to_audio/ json text language",
    "GET /tts_stream params text language", "POST /api/tts-generate data text_input language",
    "GET /api/tts params text language_id",
)  # fmt: skip


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BothPorts]:
    """Ready; the served voice speaks English, Portuguese and Greek."""
    voice = tmp_path_factory.mktemp("added") / "greek"
    voice.mkdir()
    with both(voice.parent, voice=str(voice)) as found:
        yield found


def test_it_is_listed(ports):
    assert ports.http.status()["languages"] == ["en", "pt", "el"]
    # By its code, since names are known of XTTS-v2's languages only.
    named = {"English": "en", "Portuguese": "pt", "el": "el"}
    assert ports.http.client.get("/languages").json() == {"languages": named}
    told = asyncio.run(answered(ports, Describe(), last="info")).last
    (program,) = Info.from_event(told).tts
    assert [one.languages for one in program.voices] == [["en"], ["pt"], ["el"]]


@pytest.mark.parametrize("way", SPEAKING)
def test_it_is_spoken_and_a_language_that_was_not_added_is_refused(ports, way):
    method, path, place, text, language = way.split()
    client = ports.http.client
    with asked() as orders:
        sent = {text: "Καλημέρα.", language: "el"}
        client.request(method, path, **{place: sent}).raise_for_status()
    assert [ask.language for ask, _ in orders] == ["el"]
    answer = client.request(method, path, **{place: {text: "Добрий день.", language: "uk"}})
    assert refusal(answer) == (400, "language_unsupported", language)
    assert "This voice speaks en, pt, el." in answer.json()["detail"]


def test_it_is_spoken_over_wyoming(ports):
    with asked() as orders:
        for voice in (SynthesizeVoice(language="el"), SynthesizeVoice(name="greek (el)")):
            say(ports, "Καλημέρα.", voice)
    assert [ask.language for ask, _ in orders] == ["el", "el"]


def test_recordings_may_be_in_it(ports):
    assert Dataset(ports.http, "Άννα", "el").id
