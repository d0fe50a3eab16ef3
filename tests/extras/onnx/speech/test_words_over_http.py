"""A service with ONNX Runtime returns the same word times over HTTP as one with torch, for the same
codes: greedy ones, which are equal in float32."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.api.conftest import QUICK, Running, running, settings_in
from tests.models import as_onnx
from xtts.inference.alignment.guard import CODE_SECONDS
from xtts.voices.base_models import DEMO

pytestmark = pytest.mark.slow

TEXT = "Turn left here. We walked along the river."
GREEDY: dict[str, Any] = {"input": TEXT, "temperature": 0, "response_format": "pcm"}


@contextmanager
def embedded(folder: Path, **more: Any) -> Iterator[Running]:
    """A service with the embedded voice in float32."""
    settings = settings_in(folder, speak_precision="fp32", **more)
    limits = replace(QUICK, deadline_seconds=300.0, hang_seconds=120.0)
    with running(settings, limits=limits, threads=1) as service:
        yield service


def words_of(service: Running, *, streamed: bool) -> tuple[bytes, list[dict[str, Any]], list[str]]:
    """The sound, the words with their times, and how each piece ended."""
    asked = {**GREEDY, "timestamp_granularities": ["word"]}
    if not streamed:
        told = service.client.post("/v1/audio/speech", json=asked).json()
        return base64.b64decode(told["audio"]), told["timestamps"], endings_of(told)
    answer = service.client.post("/v1/audio/speech", json={**asked, "stream_format": "sse"})
    events = [json.loads(line[6:]) for line in answer.text.splitlines() if line]
    sound = b"".join(base64.b64decode(event["audio"]) for event in events if "audio" in event)
    words = [word for event in events for word in event.get("words", [])]
    return sound, words, endings_of(events[-1])


def endings_of(told: dict[str, Any]) -> list[str]:
    return [piece["ending"] for piece in told["pieces"]]


def test_onnx_tells_the_words_and_times_of_torch(tmp_path):
    exported = as_onnx(DEMO, tmp_path / "exported", "fp32")
    with embedded(tmp_path / "torch") as service:
        expected = [words_of(service, streamed=streamed) for streamed in (True, False)]
    with embedded(tmp_path / "onnx", backend="onnx", voice=str(exported)) as service:
        found = [words_of(service, streamed=streamed) for streamed in (True, False)]
    for (sound, words, endings), (torchs, torchs_words, torchs_endings) in zip(found, expected, strict=True):
        # Equal lengths mean equal codes: one different code changes all later ones.
        assert len(sound) == len(torchs) > 48_000 and endings == torchs_endings
        assert [word["word"] for word in words] == [word["word"] for word in torchs_words]
        assert [word["word"] for word in words] == TEXT.replace(".", "").split()
        times, torchs_times = (
            np.array([(word["start_time"], word["end_time"]) for word in told])
            for told in (words, torchs_words)
        )
        assert np.abs(times - torchs_times).max() <= CODE_SECONDS + 1e-6
        assert (np.diff(times.ravel()) >= -1e-6).all() and times[-1, 1] > times[0, 0]
