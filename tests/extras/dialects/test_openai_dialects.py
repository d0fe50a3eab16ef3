"""Additions of other servers and clients to OpenAI's /v1/audio/speech, and their lists."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.conftest import Running, running, settings_in
from tests.api.heard import asked, refusal, said, samples
from xtts.encoding import MEDIA_TYPES


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """API_STRICT=on."""
    with running(settings_in(tmp_path_factory.mktemp("strict"), api_strict=True)) as found:
        yield found


def test_the_voices_are_listed_by_id_and_name(dialect, anna):
    voices = dialect.client.get("/v1/audio/voices").json()["voices"]
    assert voices[0] == {"id": "default", "name": "demo"}
    assert {"id": anna, "name": "Anna"} in voices and len(voices) >= 3
    names = dialect.client.get("/v1/audio/voices?legacy=true").json()["voices"]
    assert names[:3] == ["default", "Anna", "Élodie"]


@pytest.mark.parametrize("model", ["sotaque", "tts-1", "tts-1-1106", "gpt-4o-mini-tts-2025-03-20"])
def test_a_model_is_retrieved_by_name(dialect, model):
    listed = dialect.client.get("/v1/models").json()["data"][0]
    assert dialect.client.get(f"/v1/models/{model}").json() == {**listed, "id": model}


@pytest.mark.parametrize("model", ["whisper-1", "tts-2", "tts-1-", "gpt-4o", "tts-1.x"])
def test_a_model_that_there_is_not_is_refused(dialect, model):
    answer = dialect.client.get(f"/v1/models/{model}")
    assert refusal(answer) == (404, "model_not_found", "model")


@pytest.mark.parametrize("voice", ["Anna", "anna", {"id": "Anna"}, " anna "])
def test_a_voice_is_asked_for_by_name(dialect, anna, voice):
    with asked() as orders:
        assert dialect.say("hello", voice=voice).status_code == 200
        assert dialect.say("hello", voice={"id": anna, "name": "Anna"}).status_code == 200
    recordings = [recording for _, recording in orders]
    assert recordings == [str(dialect.state.voices.folder / f"{anna}.wav")] * 2


@pytest.mark.parametrize(
    ("fields", "language"),
    [
        ({"language": "English"}, "en"),
        ({"language": "Portuguese"}, "pt"),
        ({"lang_code": "p"}, "pt"),
        ({"language": "pt-BR", "lang_code": "a"}, "pt"),
        ({"language": "Auto"}, ""),
        ({"language": None, "lang_code": None}, ""),
    ],
)
def test_a_language_is_asked_for_in_every_clients_way(dialect, fields, language):
    with asked() as orders:
        assert dialect.say("hello", **fields).status_code == 200
    assert orders[0][0].language == language


@pytest.mark.parametrize(("fields", "plain"), [({"plain": True}, True), ({"plain": None}, False)])
def test_a_text_may_be_plain(dialect, fields, plain):
    with asked() as orders:
        assert dialect.say("# hello", **fields).status_code == 200
    assert orders[0][0].plain is plain


def test_null_counts_as_left_out(dialect):
    names = "model voice response_format speed stream stream_format language lang_code temperature seed"
    nulls = dict.fromkeys([*names.split(), "instructions"]) | {"input": "hello"}
    bodies: list[dict[str, Any]] = [{"input": "hello"}, nulls]
    with asked() as orders:
        answers = [dialect.client.post("/v1/audio/speech", json=body) for body in bodies]
    assert orders[0] == orders[1]
    assert [answer.headers["content-type"] for answer in answers] == ["audio/mpeg"] * 2


@pytest.mark.parametrize("form", ["wav", "flac", "mp3", "opus", "pcm"])
@pytest.mark.parametrize("stream", [True, False])
def test_stream_says_whether_it_is_sent_while_it_is_made(dialect, form, stream):
    answer = dialect.say("hello", response_format=form, stream=stream)
    assert answer.status_code == 200 and answer.headers["content-type"] == MEDIA_TYPES[form]
    assert ("content-length" in answer.headers) is not stream
    assert ("x-cut-pieces" in answer.headers) is not stream
    if form == "wav":
        assert (answer.content[4:8] == b"\xff\xff\xff\xff") is stream
        assert samples(answer.content) == said("hello")
    if form == "pcm":
        assert answer.content == said("hello")


def test_openais_stream_format_counts_before_stream(dialect):
    events = dialect.say("hello", stream=False, stream_format="sse")
    assert events.headers["content-type"].startswith("text/event-stream")
    audio = dialect.say("hello", stream=False, stream_format="audio")
    assert "content-length" not in audio.headers


def test_a_streamed_wav_has_one_header(dialect):
    """remsky/Kokoro-FastAPI, pull request 94: a header in each chunk sounds like a click."""
    text = "a sentence. " * 30  # two pieces
    answer = dialect.say(text, stream=True)
    assert answer.content.count(b"RIFF") == 1 and samples(answer.content) == said(text)


def test_what_changes_nothing_is_named_in_a_header(dialect):
    fields = {"volume_multiplier": 2, "instructions": "Whisper.", "é\r\nx: y": 1, "task_type": None}
    answer = dialect.say("hello", model="kokoro-7", **fields)
    assert answer.status_code == 200 and answer.headers["x-model"] == "demo"
    named = set(answer.headers["x-ignored-fields"].split(", "))
    assert named == {"volume_multiplier", "instructions", "?"}
    assert "x" not in answer.headers
    assert "x-ignored-fields" not in dialect.say("hello").headers


def test_the_names_in_the_header_are_bounded(dialect):
    answer = dialect.say("hello", **{f"field{number}": 1 for number in range(500)})
    assert len(answer.headers["x-ignored-fields"].split(", ")) == 20


@pytest.mark.parametrize(
    ("fields", "found", "words"),
    [
        ({"surprise": 1}, (422, "invalid_request", "surprise"), "surprise is not a field"),
        ({"instructions": "whisper"}, (400, "unsupported", "instructions"), "no instructions"),
        ({"model": "gpt-9"}, (404, "model_not_found", "model"), "There is no model 'gpt-9'"),
    ],
)
def test_strictness_refuses_what_changes_nothing(strict, fields, found, words):
    answer = strict.say("hello", **fields)
    assert refusal(answer) == found and words in answer.json()["detail"]
    # A field without effect or content is accepted.
    assert strict.say("hello", instructions="", model="tts-1", stream=None).status_code == 200
