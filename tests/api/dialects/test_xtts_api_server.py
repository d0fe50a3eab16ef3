"""xtts-api-server's settings and refusals; its clients are in test_clients."""

from typing import Any

import pytest

from tests.api.conftest import Running
from tests.api.dialects.heard import asked, refusal

# SillyTavern's defaults: SillyTavern/SillyTavern d72b5125 public/scripts/extensions/tts/xtts.js
SLIDERS = {
    "temperature": 0.75, "speed": 1, "length_penalty": 1.0, "repetition_penalty": 5.0,
    "top_p": 0.85, "top_k": 50, "enable_text_splitting": True, "stream_chunk_size": 100,
}  # fmt: skip


def test_settings_count_for_the_callers_later_requests_to_this_dialect(
    dialect: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = {**SLIDERS, "temperature": "0.3", "speed": "1.25"}
    assert dialect.client.post("/set_tts_settings", json=changed).status_code == 200
    told = dialect.client.get("/get_tts_settings").json()
    assert told == {**SLIDERS, "temperature": 0.3, "speed": 1.25}
    with asked(monkeypatch) as orders:
        dialect.client.post("/tts_to_audio/", json={"text": "hi"})
        dialect.client.get("/tts_stream", params={"text": "hi"})
        dialect.client.get("/api/tts", params={"text": "hi"})
    said = [(one.temperature, one.speed) for one, _ in orders]
    assert said == [(0.3, 1.25), (0.3, 1.25), (None, 1.0)]


def test_a_switch_may_be_a_number(dialect: Running) -> None:
    answer = dialect.client.post("/set_tts_settings", json={**SLIDERS, "enable_text_splitting": 0})
    assert answer.status_code == 200
    assert dialect.client.get("/get_tts_settings").json()["enable_text_splitting"] == 0


@pytest.mark.parametrize(
    ("body", "param"),
    [({"temperature": 0}, "temperature"), ({"temperature": "warm"}, "temperature"),
     ({"speed": 3}, "speed"), ({"top_k": 101}, "top_k"), ({"stream_chunk_size": 5},
     "stream_chunk_size"), ({"speed": None}, "speed"), ({"top_k": False}, "top_k"),
     ({"enable_text_splitting": 7}, "enable_text_splitting")],
)  # fmt: skip
def test_settings_beyond_their_bounds_are_refused(
    dialect: Running, body: dict[str, Any], param: str
) -> None:
    answer = dialect.client.post("/set_tts_settings", json={**SLIDERS, **body})
    assert refusal(answer) == (422, "invalid_request", param)


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ({"text": ""}, (422, "invalid_request", "text")),
        ({"text": "x" * 4097}, (422, "invalid_request", "text")),
        ({}, (422, "invalid_request", "text")),
        ({"text": "x", "speaker_wav": "nobody.wav"}, (404, "no_voice", "speaker_wav")),
        ({"text": "x", "speaker_wav": "../../etc/passwd"}, (404, "no_voice", "speaker_wav")),
        ({"text": "x", "language": "tlh"}, (400, "language_unsupported", "language")),
    ],
)
def test_what_is_refused_and_how(
    dialect: Running, body: dict[str, Any], found: tuple[int, str, str | None]
) -> None:
    assert refusal(dialect.client.post("/tts_to_audio/", json=body)) == found
    assert refusal(dialect.client.get("/tts_stream", params=body)) == found


@pytest.mark.parametrize("path", ["/get_folders", "/set_output", "/switch_model", "/tts_to_file"])
def test_nothing_of_the_servers_own_disk_can_be_named(dialect: Running, path: str) -> None:
    for method in ("GET", "POST"):
        assert refusal(dialect.client.request(method, path)) == (404, "not_found", None)
