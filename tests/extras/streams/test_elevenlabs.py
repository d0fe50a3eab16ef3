"""ElevenLabs' routes over HTTP, with a fake child."""

import httpx
import pytest

from tests.api.heard import asked
from tests.extras.streams.test_elevenlabs_sockets import SECOND, pcm_of


def post(service, voice: str = "default", way: str = "", form: str = "pcm_24000", **body) -> httpx.Response:
    path = f"/v1/text-to-speech/{voice}{way}"
    return service.client.post(path, json={"text": SECOND, **body}, params={"output_format": form})


@pytest.mark.parametrize("way", ["", "/stream"])
def test_it_speaks_in_the_format_of_the_address(service, way):
    answer = post(service, way=way, model_id="eleven_turbo_v2_5", voice_settings={"stability": 1})
    assert answer.content == pcm_of(SECOND) and answer.headers["content-type"] == "audio/pcm"
    other = post(service, way=way, form="pcm_16000")
    assert len(other.content) == pytest.approx(len(pcm_of(SECOND)) * 16 / 24, abs=4)
    assert other.headers["x-sample-rate"] == "16000"
    assert post(service, way=way, form="mp3_44100_128").headers["content-type"] == "audio/mpeg"
    assert post(service, way=way, form="ulaw_8000").json()["code"] == "unsupported"


def test_seed_speed_and_language_reach_the_engine(service):
    with asked() as orders:
        post(service, seed=7, language_code="pt", voice_settings={"speed": 1.1})
        post(service, seed=None, language_code=None, voice_settings=None)
    first, second = (ask for ask, _ in orders)
    assert (first.seed, first.language, first.speed) == (7, "pt", 1.1)
    assert (second.seed, second.speed) == (0, 1.0)


def test_its_voices_have_elevenlabs_fields(service):
    """LiveKit's `list_voices` reads these three."""
    rows = service.client.get("/v1/voices").json()["voices"]
    assert [(row["voice_id"], row["category"]) for row in rows] == [("default", "premade")]


def test_the_key_in_elevenlabs_header_opens(tmp_path):
    from tests.api.conftest import running, settings_in

    with running(settings_in(tmp_path, api_key="correct horse")) as locked:
        for key, status in (("correct horse", 200), ("wrong", 401), ("", 401)):
            answer = locked.client.get("/v1/voices", headers={"xi-api-key": key})
            assert answer.status_code == status
