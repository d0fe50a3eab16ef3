"""Word times in Kokoro's captioned speech."""

import base64
import json
from typing import Any

import pytest

from tests.api.conftest import Running
from tests.api.speech.test_word_times import TEXT, WORDS, rounded


def lines_of(service: Running, **body: Any) -> list[dict[str, Any]]:
    answer = service.client.post("/dev/captioned_speech", json={"input": TEXT, **body})
    assert answer.status_code == 200, answer.text
    streamed = body.get("stream", True)
    kind = "application/x-ndjson" if streamed else "application/json"
    assert answer.headers["content-type"] == kind
    return [json.loads(line) for line in answer.text.splitlines()]


def sound(lines: list[dict[str, Any]]) -> bytes:
    return b"".join(base64.b64decode(line["audio"]) for line in lines)


def test_captioned_speech_streams_lines_of_sound_and_words(shared_service):
    lines = lines_of(shared_service, response_format="pcm")
    assert len(lines) > 2
    assert all({"audio", "audio_format", "timestamps"} <= set(line) for line in lines)
    assert {line["audio_format"] for line in lines} == {"audio/pcm"}
    assert rounded([word for line in lines for word in line["timestamps"]]) == WORDS
    assert sound(lines) == shared_service.say(TEXT, response_format="pcm").content
    assert lines[-1]["pieces"][0]["ending"] == "good" and lines[-1]["cut_pieces"] == 0
    assert all("pieces" not in line for line in lines[:-1])


def test_captioned_speech_whole_is_one_object_with_headers_of_the_guard(shared_service):
    body = {"input": "!broken x", "stream": False, "response_format": "wav"}
    answer = shared_service.client.post("/dev/captioned_speech", json=body)
    told = answer.json()
    assert base64.b64decode(told["audio"]) == shared_service.say("!broken x").content
    assert [word["word"] for word in told["timestamps"]] == ["!broken", "x"]
    assert told["audio_format"] == "audio/wav"
    assert told["pieces"][0]["ending"] == "unfinished"
    assert answer.headers["x-faulty-pieces"] == "unfinished"


@pytest.mark.parametrize("form", ["mp3", "opus", "flac", "wav"])
def test_the_sound_of_the_lines_is_the_format_s_own_stream(shared_service, form):
    lines = lines_of(shared_service, response_format=form)
    streamed = shared_service.say(TEXT, response_format=form, stream=True)
    assert {line["audio_format"] for line in lines} == {streamed.headers["content-type"]}
    # Each Ogg stream has a different serial number.
    same = len if form == "opus" else bytes
    assert same(sound(lines)) == same(streamed.content)


def test_a_voice_that_cannot_tell_says_null_and_speaks_all_the_same(shared_service):
    lines = lines_of(shared_service, input="!untimed words", response_format="pcm")
    assert lines[-1]["timestamps"] is None and sound(lines)
    assert not any(line["timestamps"] for line in lines)
    for asked in ({"input": "!untimed words"}, {"return_timestamps": False}):
        (whole,) = lines_of(shared_service, stream=False, **asked)
        assert whole["timestamps"] is None and whole["audio"]


def test_words_of_a_long_text_come_as_its_pieces_end(shared_service):
    lines = lines_of(shared_service, input="word " * 120, response_format="pcm")
    told = [at for at, line in enumerate(lines) if line["timestamps"]]
    assert len(told) == 3 and told[0] < len(lines) / 2
    starts = [word["start_time"] for line in lines for word in line["timestamps"]]
    assert len(starts) == 120 and starts == sorted(starts)
