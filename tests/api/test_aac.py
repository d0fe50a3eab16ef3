"""AAC is answered as a stream or a complete file, and refused if FFmpeg cannot encode it."""

import pytest

from machine import commands
from tests.api.decoding import decoded
from tests.api.heard import refusal
from xtts import encoding

MAX_PADDING = 2048


@pytest.mark.parametrize(("form", "kind"), [("aac", "audio/aac"), ("m4a", "audio/mp4")])
@pytest.mark.parametrize("stream", [None, True, False])
def test_aac_is_answered(shared_service, form, kind, stream):
    """m4a is a complete file by default: its header holds its length."""
    answer = shared_service.say("hello " * 10, response_format=form, stream=stream)
    assert answer.status_code == 200 and answer.headers["content-type"] == kind
    streamed = form == "aac" if stream is None else stream
    assert ("content-length" in answer.headers) is not streamed
    assert 0 <= len(decoded(answer.content)) - 60 * 480 <= MAX_PADDING


def test_without_the_encoder_it_says_what_to_type(shared_service, monkeypatch):
    monkeypatch.setattr(encoding, "av_is_installed", lambda: False)
    for form in encoding.AAC_FORMATS:
        answer = shared_service.say("hello", response_format=form)
        assert refusal(answer) == (400, "unsupported", "response_format")
        assert commands.install_extra("aac") in answer.json()["detail"]
    assert shared_service.say("hello", response_format="mp3").status_code == 200
