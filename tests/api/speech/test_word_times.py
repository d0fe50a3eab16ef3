"""Word times over HTTP: OpenAI's requests that include words."""

import base64
import json
from typing import Any

from tests.api.conftest import Running

TEXT = "one two three"
# The fake child speaks each character in 20 ms.
WORDS = [
    {"word": "one", "start_time": 0.0, "end_time": 0.06},
    {"word": "two", "start_time": 0.08, "end_time": 0.14},
    {"word": "three", "start_time": 0.16, "end_time": 0.26},
]


def rounded(words: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [word | {at: round(word[at], 3) for at in ("start_time", "end_time")} for word in words]


def test_openai_s_request_names_words_when_it_asks_for_them(service):
    told = service.say(TEXT, timestamp_granularities=["word"]).json()
    assert rounded(told["timestamps"]) == WORDS
    assert base64.b64decode(told["audio"]) == service.say(TEXT).content
    plain = service.say(TEXT, timestamp_granularities=[])
    assert plain.headers["content-type"] == "audio/wav"
    assert service.say(TEXT, timestamp_granularities=["phone"]).status_code == 422


def events_of(service: Running, **body: Any) -> list[dict[str, Any]]:
    answer = service.say(TEXT, stream_format="sse", response_format="pcm", **body)
    return [json.loads(line[6:]) for line in answer.text.splitlines() if line]


def test_openai_s_events_carry_words_when_they_are_asked_for(service):
    events = events_of(service, timestamp_granularities=["word"])
    assert rounded([word for event in events for word in event.get("words", [])]) == WORDS
    assert events[-1]["type"] == "speech.audio.done" and events[-1]["timed"] is True
    assert events[-1]["pieces"][0]["ending"] == "good"
    kinds = {sent["type"] for sent in events_of(service)}
    assert kinds == {"speech.audio.delta", "speech.audio.done"}
