"""What every way to ask for speech has in common, in one table: OpenAI's, AllTalk's, Coqui's two
servers, xtts-api-server and Wyoming. A new way is a row of `WAYS`."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import httpx
import pytest
from wyoming.tts import Synthesize, SynthesizeVoice

from api.schemas import MOST_CHARACTERS
from extras.dialects.xtts_streaming_server import handle_of
from tests.api.conftest import QUICK
from tests.api.heard import asked
from tests.api.sounds import file_of, speech, upload
from tests.extras.wyoming.conftest import BothPorts, answered, both

# A name that macOS writes with its accents apart.
COMPOSED, APART = "\u00c9lodie", "E\u0301lodie"


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BothPorts]:
    """Ready, with one uploaded voice beside the served one, which speaks en and pt."""
    limits = replace(QUICK, queue=32, deadline=60.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FAKE_STEP", "0")  # 4,096 characters are 4,096 steps
        with both(tmp_path_factory.mktemp("common"), limits=limits) as found:
            assert upload(found.http, file_of(speech()), name=COMPOSED).status_code == 201
            yield found


@dataclass(frozen=True)
class Asked:
    """One request; what is empty is left out, as clients leave it out."""

    text: str = "hello"
    voice: str = ""
    language: str = ""
    speed: float | None = None


Answer = tuple[int, str]  # status and code; (200, "") for speech, Wyoming's status is 0 or 200


def _answer(found: httpx.Response) -> Answer:
    return found.status_code, "" if found.is_success else found.json()["code"]


def _given(**fields: object) -> dict[str, object]:
    return {name: one for name, one in fields.items() if one not in ("", None)}


def openai(ports: BothPorts, one: Asked) -> Answer:
    fields = {"response_format": "wav", "voice": one.voice, "language": one.language}
    body = _given(**fields, speed=one.speed)
    return _answer(ports.http.client.post("/v1/audio/speech", json={"input": one.text, **body}))


def alltalk(ports: BothPorts, one: Asked) -> Answer:
    form = _given(character_voice_gen=one.voice, language=one.language, speed=one.speed)
    form = {"text_input": one.text, **form}
    return _answer(ports.http.client.post("/api/tts-generate", data=form))


def alltalk_stream(ports: BothPorts, one: Asked) -> Answer:
    params = {"text": one.text, **_given(voice=one.voice, language=one.language)}
    return _answer(ports.http.client.get("/api/tts-generate-streaming", params=params))


def coqui(ports: BothPorts, one: Asked) -> Answer:
    form = {"text": one.text, **_given(speaker_id=one.voice, language_id=one.language)}
    return _answer(ports.http.client.post("/api/tts", data=form))


def streaming_server(ports: BothPorts, one: Asked) -> Answer:
    body = {"text": one.text, "language": one.language or "en"}
    handle = handle_of(one.voice or "default").model_dump()
    return _answer(ports.http.client.post("/tts_stream", json={**body, **handle}))


def api_server(ports: BothPorts, one: Asked) -> Answer:
    """Speed is a setting of the caller."""
    client = ports.http.client
    if one.speed is not None:
        settings = {**client.get("/get_tts_settings").json(), "speed": one.speed}
        if (found := client.post("/set_tts_settings", json=settings)).is_error:
            return _answer(found)
    body = {"text": one.text, **_given(speaker_wav=one.voice, language=one.language)}
    try:
        return _answer(client.post("/tts_to_audio/", json=body))
    finally:
        client.post(
            "/set_tts_settings", json={**client.get("/get_tts_settings").json(), "speed": 1}
        )


def wyoming(ports: BothPorts, one: Asked) -> Answer:
    voice = SynthesizeVoice(name=one.voice or None, language=one.language or None)
    event = Synthesize(text=one.text, voice=voice if one.voice or one.language else None)
    found = asyncio.run(answered(ports, event))
    return (0, found.code or "") if found.error else (200, "")


Way = Callable[[BothPorts, Asked], Answer]
WAYS: list[Way] = [
    openai, alltalk, alltalk_stream, coqui, streaming_server, api_server, wyoming,
]  # fmt: skip
# With the fastest that each takes; xtts-api-server's own bound is 2.
WITH_SPEED: list[tuple[Way, float]] = [(openai, 4.0), (alltalk, 4.0), (api_server, 2.0)]
# Its clients name a voice by what the server gave them for it.
BY_NAME: list[Way] = [way for way in WAYS if way is not streaming_server]
every_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)


def spoken(ports: BothPorts, way: Way, one: Asked) -> tuple[str, str, float, bool]:
    """Text, language and speed as the engine gets them, and whether a recording speaks."""
    with asked() as orders:
        assert way(ports, one) == (200, "")
    ((ask, recording),) = orders
    return ask.text, ask.language, ask.speed, recording is not None


@pytest.mark.parametrize(("way", "most"), WITH_SPEED)
def test_speed_reaches_the_engine_and_has_bounds(ports, way, most):
    for speed in (1.5, 0.25, most):
        assert spoken(ports, way, Asked(speed=speed))[2] == speed
    for wrong in (0.2, most + 0.1):
        assert way(ports, Asked(speed=wrong)) == (422, "invalid_request")
    assert spoken(ports, way, Asked())[2] == 1.0


@every_way
def test_the_language_reaches_the_engine_in_every_spelling(ports, way):
    for wanted in ("pt", "pt-BR", "PT_br", "Portuguese"):
        assert spoken(ports, way, Asked(language=wanted))[1] == "pt", wanted
    assert way(ports, Asked(language="de"))[1] == "language_unsupported"


@pytest.mark.parametrize("way", BY_NAME, ids=lambda way: way.__name__)
def test_a_voice_is_found_by_its_name_however_it_is_composed(ports, way):
    for name in (COMPOSED, APART, APART.upper(), f"  {COMPOSED} "):
        assert spoken(ports, way, Asked(voice=name))[3], name
    identity = ports.http.client.get("/v1/voices").json()["voices"][-1]["id"]
    assert spoken(ports, way, Asked(voice=identity))[3]
    assert not spoken(ports, way, Asked())[3]


@every_way
def test_a_voice_that_is_not_there_is_none(ports, way):
    for name in ("Nobody", "0123456789ab"):
        assert way(ports, Asked(voice=name)) in ((404, "no_voice"), (0, "no_voice"))


@every_way
def test_a_text_is_neither_too_long_nor_empty(ports, way):
    """Of characters that take four bytes, and twelve where JSON escapes them."""
    longest = ("x" if way is alltalk_stream else "\U00020000") * MOST_CHARACTERS
    with asked() as orders:
        assert way(ports, Asked(text=longest))[1] == ""
        assert way(ports, Asked(text=f"{longest}x"))[1] == "invalid_request"
        # Wyoming's clients end a stream with an empty text: nothing is said, and that is all.
        empty = "" if way is wyoming else "invalid_request"
        assert way(ports, Asked(text=""))[1] == empty
    assert [one.text for one, _ in orders] == [longest]
