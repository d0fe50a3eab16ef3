"""Markup and pauses over HTTP, with the embedded voice. tests/xtts tests the kinds of markup and
the lengths of pauses."""

import numpy as np
import pytest

from tests.api.heard import refused
from tests.api.paths import served

RATE = 24_000


@pytest.mark.parametrize("stream", [True, False])
def test_a_pause_is_as_long_as_it_says(real, stream):
    answer = real.say("Turn left. [pause:700ms] Go on.", response_format="pcm", stream=stream)
    assert answer.status_code == 200, answer.text
    sound = np.flatnonzero(np.frombuffer(answer.content, "<i2"))
    longest_silence_seconds = (np.diff(sound).max() - 1) / RATE
    assert abs(longest_silence_seconds - 0.7) <= 0.010


@pytest.mark.parametrize("path", served("/v1/audio/speech", "/dev/captioned_speech"))
def test_unknown_markup_is_refused_by_its_name(real, path):
    answer = real.client.post(path, json={"input": "Go [laugh:soft] on."})
    assert refused(answer) == (422, "refused") and "[laugh:soft]" in answer.json()["detail"]


def test_marks_of_markdown_are_spoken_only_in_a_plain_text(real):
    sounds = [
        real.say(text, response_format="pcm", seed=1, **fields).content
        for text, fields in (("# Go on.", {}), ("Go on.", {}), ("# Go on.", {"plain": True}))
    ]
    assert sounds[0] == sounds[1] != sounds[2]
