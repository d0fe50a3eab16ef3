"""AllTalk's sounds, which are fetched later, and its refusals; its clients are in test_clients."""

import asyncio
from types import SimpleNamespace

import pytest

from extras.dialects import alltalk, memory
from extras.dialects.memory import KeptSounds
from tests.api.conftest import Running
from tests.api.heard import asked, refusal, said, samples


def generate(service: Running, **fields: str) -> dict[str, str]:
    answer = service.client.post("/api/tts-generate", data={"text_input": "hello", **fields})
    found: dict[str, str] = answer.raise_for_status().json()
    return found


def test_a_sound_is_found_under_both_of_its_addresses_and_nothing_else_is(dialect):
    told = generate(dialect)
    for path in (told["output_file_url"], told["output_cache_url"]):
        assert samples(dialect.client.get(path).content) == said("hello")
    for name in ("audio/x.wav", "audio/..%2f..%2fetc%2fpasswd", "audio/st_output.wav"):
        assert dialect.client.get(f"/{name}").status_code == 404
    assert refusal(dialect.client.get("/audiocache/x.wav")) == (404, "no_sound", None)


def test_it_is_not_ready_while_the_child_still_opens_the_voice():
    engine = SimpleNamespace(child=object(), served_voice=None)
    assert asyncio.run(alltalk.ready(SimpleNamespace(engine=engine))) == "Unloaded"


def test_a_preview_says_the_name(dialect):
    with asked() as orders:
        answer = dialect.client.post("/api/previewvoice/", data={"voice": "Anna.wav"})
    assert orders[0][0].text == "This is the voice Anna."
    assert answer.json()["output_file_url"].startswith("http://")


@pytest.mark.parametrize("switch", ["true", "True", "1"])
def test_streaming_answers_with_the_sound(dialect, switch):
    form = {"text_input": "hello", "streaming": switch}
    answer = dialect.client.post("/api/tts-generate", data=form)
    assert answer.headers["content-type"] == "audio/wav"
    assert samples(answer.content) == said("hello")


def test_what_has_no_effect_is_named(dialect):
    form = {"text_input": "hello", "narrator_enabled": "true", "rvccharacter_voice_gen": "x.pth"}
    answer = dialect.client.post("/api/tts-generate", data=form)
    told = "narrator_enabled, rvccharacter_voice_gen"
    assert answer.status_code == 200 and answer.headers["x-ignored-fields"] == told
    plain = dialect.client.post("/api/tts-generate", data={"text_input": "hi"})
    assert "x-ignored-fields" not in plain.headers


def test_html_is_resolved_where_it_is_said_to_be(dialect):
    with asked() as orders:
        generate(dialect, text_input="a &amp; b", text_filtering="html")
        generate(dialect, text_input="a &amp; b")
    assert [request.text for request, _ in orders] == ["a & b", "a &amp; b"]


def test_sounds_are_kept_within_bounds(monkeypatch):
    monkeypatch.setattr(memory, "_MAX_SOUNDS", 3)
    monkeypatch.setattr(memory, "_MAX_SOUND_BYTES", 100)
    kept = KeptSounds()
    # However many there were: removed sounds do not take up space.
    names = [kept.keep(bytes(20)) for _ in range(40)]
    assert [kept.find(name) is not None for name in names] == [False] * 37 + [True] * 3
    large = kept.keep(bytes(95))
    assert [kept.find(name) is not None for name in names] == [False] * 40
    assert kept.find(large) == bytes(95) and len(set(names)) == 40


def test_sounds_are_kept_for_ten_minutes(monkeypatch):
    now = 1000.0
    monkeypatch.setattr("extras.dialects.memory.time.monotonic", lambda: now)
    kept = KeptSounds()
    name = kept.keep(b"x")
    now += 599
    assert kept.find(name) == b"x"
    now += 2
    assert kept.find(name) is None
