"""Markup, pauses and word times over HTTP, with the embedded voice."""

import base64
import io
import json

import numpy as np
import pytest
import soundfile

from tests.api.conftest import Running
from tests.api.heard import refused

RATE = 24_000
TEXT = "Turn left. [pause:700ms] Go on."


def pcm(service: Running, text: str, **more: object) -> np.ndarray:
    answer = service.say(text, response_format="pcm", **more)
    assert answer.status_code == 200, answer.text
    return np.frombuffer(answer.content, "<i2")


def longest_silence_seconds(samples: np.ndarray) -> float:
    """The longest row of samples that are zero, but for the last and the first of the sound."""
    sound = np.flatnonzero(samples)
    return float(np.diff(sound).max() - 1) / RATE


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    "tag", ["[pause:700ms]", '<break time="0.7s"/>', '<break strength="strong"/>']
)
def test_a_pause_is_as_long_as_it_says(real, tag, stream):
    heard = pcm(real, TEXT.replace("[pause:700ms]", tag), stream=stream)
    assert abs(longest_silence_seconds(heard) - 0.7) <= 0.010


@pytest.mark.parametrize(("text", "named"), [
    ("Go <prosody rate='slow'>on</prosody>.", "<prosody>"),
    ("Go <b>on</b>.", "<b>"),
    ("Go [laugh:loud] on.", "laugh"),
    ("Go <break tim on.", "break"),
    ("Go [pause:soon] on.", "[pause:soon]"),
    ("<speak>Go on.", "<speak>"),
])  # fmt: skip
def test_unknown_markup_is_refused_by_its_name(real, text, named):
    for path in ("/v1/audio/speech", "/dev/captioned_speech"):
        answer = real.client.post(path, json={"input": text})
        assert refused(answer) == (422, "refused")
        assert named in answer.json()["detail"]


@pytest.mark.slow
def test_every_word_of_the_text_has_its_time(real):
    """Whole, in lines and as events the same words; at their times, in order, inside the sound."""
    text = "Dr. Smith paid $5.50 & left. [pause:300ms] He was (quite) happy."
    written = ["Dr", "Smith", "paid", "$5.50", "&", "left", "He", "was", "quite", "happy"]
    body = {"input": text, "response_format": "wav", "stream": False}
    whole = real.client.post("/dev/captioned_speech", json=body)
    assert whole.headers["x-faulty-pieces"] == "0"
    told = whole.json()["timestamps"]
    assert [word["word"] for word in told] == written
    edges = [time for word in told for time in (word["start_time"], word["end_time"])]
    assert edges == sorted(edges)
    samples, rate = soundfile.read(io.BytesIO(base64.b64decode(whole.json()["audio"])))
    assert edges[-1] <= len(samples) / rate
    gap = told[6]["start_time"] - told[5]["end_time"]
    assert gap >= 0.25
    # "$5.50" is five words, and takes longer than any other.
    longest = max(told, key=lambda word: word["end_time"] - word["start_time"])
    assert longest["word"] == "$5.50"
    streamed = real.client.post("/dev/captioned_speech", json=body | {"stream": True})
    lines = [json.loads(line) for line in streamed.text.splitlines()]
    assert [word["word"] for line in lines for word in line["timestamps"]] == written
    faster = real.client.post("/dev/captioned_speech", json=body | {"speed": 1.5}).json()
    assert faster["timestamps"][-1]["end_time"] == pytest.approx(edges[-1] / 1.5, abs=0.5)
