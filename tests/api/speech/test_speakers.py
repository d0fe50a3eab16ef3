"""The speaker, by name and style, in every way that a client can choose one."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import soundfile

from api.engine.engine import Engine
from api.engine.queue import SpeechStream
from tests.api.conftest import Running, running, settings_in
from tests.api.heard import refusal
from tests.api.paths import served
from tests.api.sounds import file_of, speech, upload

NAMES = ("kim", "kim:calm", "ben")


@pytest.fixture(scope="module")
def cast(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A served voice with kim (also kim:calm) and ben; anna and anna:whisper are uploaded."""
    folder = tmp_path_factory.mktemp("cast")
    with running(settings_in(folder)) as service:
        for name in ("Anna", "Anna:whisper"):
            assert upload(service, file_of(speech()), name=name).status_code == 201
        paths = {name: str(folder / f"{number}.wav") for number, name in enumerate(NAMES)}
        for path in paths.values():
            soundfile.write(path, [0.0] * 2400, 24_000)
        engine = service.state.engine
        assert engine.served_voice is not None
        engine.served_voice = replace(engine.served_voice, own_name="kim", speakers=paths)
        yield service


@pytest.fixture
def orders(monkeypatch: pytest.MonkeyPatch, cast: Running) -> list[tuple[str | None, dict[str, Any]]]:
    """The recording and the speakers of every request in this context, as names."""
    given: list[tuple[str | None, dict[str, Any]]] = []
    speak = Engine.speak
    names = {path: name for name, path in cast.state.speakers.items()}
    for voice in cast.state.voices.all():
        names[str(cast.state.voices.reference_path(voice))] = voice.name

    def spy(self: Engine, spoken: SpeechStream) -> SpeechStream:
        others = {name: path and names[path] for name, path in spoken.cast.items()}
        given.append((spoken.recording and names[spoken.recording], others))
        return speak(self, spoken)

    monkeypatch.setattr(Engine, "speak", spy)
    return given


@pytest.mark.parametrize(
    ("fields", "who"),
    [
        ({}, None),
        ({"voice": "kim"}, None),
        ({"voice": "Ben"}, "ben"),
        ({"voice": "ben.wav"}, "ben"),
        ({"voice": "kim:calm"}, "kim:calm"),
        ({"style": "calm"}, "kim:calm"),
        ({"voice": "default", "style": "Calm"}, "kim:calm"),
        ({"voice": "demo:calm"}, "kim:calm"),
        ({"voice": "anna", "style": "whisper"}, "Anna:whisper"),
        ({"voice": "anna:whisper"}, "Anna:whisper"),
        ({"voice": "anna", "instructions": "Please whisper to me."}, "Anna:whisper"),
        ({"instructions": "Speak in a calm tone."}, "kim:calm"),
        ({"voice": "ben", "instructions": "Speak in a calm tone."}, "ben"),
    ],
)
def test_a_speaker_and_a_style_are_asked_for_in_every_way(cast, orders, fields, who):
    answer = cast.say("hello", **fields)
    assert answer.status_code == 200 and orders == [(who, {})]
    ignored = "instructions" in answer.headers.get("x-ignored-fields", "")
    assert ignored == ("instructions" in fields and who == "ben")


@pytest.mark.parametrize(
    ("text", "voice", "others"),
    [
        ("a [voice:ben] b", "default", {"ben": "ben"}),
        ("a [voice:anna:whisper] b [/style] c", "default", {"anna:whisper": "Anna:whisper", "anna": "Anna"}),
        ("a [style:calm] b [/style] c", "default", {":calm": "kim:calm"}),
        ("a [style:whisper] b", "anna", {":whisper": "Anna:whisper"}),
        ("a [voice:kim] b", "ben", {"kim": None}),
    ],
)
def test_a_text_changes_its_speaker(cast, orders, text, voice, others):
    assert cast.say(text, voice=voice).status_code == 200
    assert orders[0][1] == others


@pytest.mark.parametrize(
    ("fields", "refused", "told"),
    [
        ({"voice": "anna", "style": "calm"}, (404, "no_style", "voice"), "It has whisper."),
        ({"style": "loud"}, (404, "no_style", "voice"), "It has calm."),
        ({"voice": "ben", "style": "loud"}, (404, "no_style", "voice"), "'ben' has no style 'loud'"),
        ({"voice": "ben:loud"}, (404, "no_style", "voice"), "It has none."),
        ({"voice": "demo:loud"}, (404, "no_style", "voice"), "It has calm."),
        ({"voice": "bob"}, (404, "no_voice", "voice"), "/v1/voices"),
        ({"voice": "bob", "style": "calm"}, (404, "no_voice", "voice"), "/v1/voices"),
        ({"voice": "bob:calm"}, (404, "no_voice", "voice"), "/v1/voices"),
        ({"input": "a [voice:bob] b"}, (404, "no_voice", "text"), "/v1/voices"),
        ({"input": "a [style:loud] b"}, (404, "no_style", "text"), "It has calm."),
    ],
)
def test_what_is_not_there_is_refused_by_name(cast, fields, refused, told):
    answer = cast.client.post("/v1/audio/speech", json={"input": "hello", **fields})
    assert refusal(answer) == refused and told in answer.json()["detail"]


def test_the_list_has_the_speakers(cast):
    rows = cast.client.get("/v1/voices").json()["voices"]
    listed = [(row["name"], row["origin"]) for row in rows]
    assert listed[:4] == [("demo", "served"), *((name, "speaker") for name in NAMES)]
    assert ("Anna:whisper", "upload") in listed


@pytest.mark.parametrize("path", served("/v1/audio/voices", "/speakers_list", "/speakers", "/api/voices"))
def test_other_lists_have_them_too(cast, path):
    """Each by its quoted name, whatever the format of the list."""
    text = cast.client.get(path).text
    assert all(f'"{name}"' in text for name in NAMES)


def test_a_speaker_is_heard_and_neither_renamed_nor_deleted(cast):
    row = cast.client.get("/v1/voices/kim:calm").json()
    heard = cast.client.get(row["preview"])
    assert heard.content == Path(cast.state.speakers["kim:calm"]).read_bytes()
    rename = cast.client.patch("/v1/voices/ben", json={"name": "Bea"})
    delete = cast.client.delete("/v1/voices/ben")
    assert refusal(rename)[:2] == refusal(delete)[:2] == (409, "served_voice")


def test_a_speaker_of_an_onnx_voice_has_nothing_to_play(cast, tmp_path, monkeypatch):
    latents = tmp_path / "1.safetensors"
    latents.write_bytes(b"latents")
    engine = cast.state.engine
    monkeypatch.setattr(engine, "served_voice", replace(engine.served_voice, speakers={"zoe": str(latents)}))
    assert cast.client.get("/v1/voices/zoe").json()["preview"] is None
    assert refusal(cast.client.get("/v1/voices/zoe/preview.wav"))[:2] == (404, "no_recording")
