"""xtts-api-server's settings and refusals; its clients are in test_clients."""

import pytest

from tests.api.heard import asked, refusal

# SillyTavern's defaults: SillyTavern/SillyTavern d72b5125 public/scripts/extensions/tts/xtts.js
SLIDERS = {
    "temperature": 0.75,
    "speed": 1,
    "length_penalty": 1.0,
    "repetition_penalty": 5.0,
    "top_p": 0.85,
    "top_k": 50,
    "enable_text_splitting": True,
    "stream_chunk_size": 100,
}


def test_settings_count_for_the_callers_later_requests_to_this_dialect(dialect):
    changed = {**SLIDERS, "temperature": "0.3", "speed": "1.25"}
    assert dialect.client.post("/set_tts_settings", json=changed).status_code == 200
    told = dialect.client.get("/get_tts_settings").json()
    assert told == {**SLIDERS, "temperature": 0.3, "speed": 1.25}
    with asked() as orders:
        dialect.client.post("/tts_to_audio/", json={"text": "hi"})
        dialect.client.get("/tts_stream", params={"text": "hi"})
        dialect.client.get("/api/tts", params={"text": "hi"})
    # A switch may be a number.
    switched = {**SLIDERS, "enable_text_splitting": 0}
    assert dialect.client.post("/set_tts_settings", json=switched).status_code == 200
    assert dialect.client.get("/get_tts_settings").json()["enable_text_splitting"] == 0
    said = [(request.temperature, request.speed) for request, _ in orders]
    assert said == [(0.3, 1.25), (0.3, 1.25), (None, 1.0)]


@pytest.mark.parametrize("path", ["/get_folders", "/set_output", "/switch_model", "/tts_to_file"])
def test_nothing_of_the_servers_own_disk_can_be_named(dialect, path):
    for method in ("GET", "POST"):
        assert refusal(dialect.client.request(method, path)) == (404, "not_found", None)
