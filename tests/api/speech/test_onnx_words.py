"""A service that speaks with ONNX Runtime tells the words' times over HTTP as one with torch does,
for the same codes: greedy ones, which are the same in float32."""

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from extras.onnx.export import exporter
from tests.api.conftest import QUICK, Running, running, settings_in
from tests.api.speech.test_captions import lines_of
from xtts.inference.alignment.guard import CODE_SECONDS
from xtts.voices.base_models import DEMO

pytestmark = pytest.mark.slow

TEXT = "Turn left here. We walked along the river."
GREEDY: dict[str, Any] = {"input": TEXT, "temperature": 0, "response_format": "pcm"}


@contextmanager
def embedded(folder: Path, **more: Any) -> Iterator[Running]:
    """A service with the embedded voice in float32."""
    settings = settings_in(folder, speak_precision="fp32", **more)
    limits = replace(QUICK, deadline=300.0, hang=120.0)
    with running(settings, limits=limits, threads=1) as service:
        yield service


def words_of(service: Running, **how: Any) -> tuple[bytes, list[dict[str, Any]], list[str]]:
    """The sound, the words with their times, and how each piece ended."""
    lines = lines_of(service, **GREEDY, **how)
    sound = b"".join(base64.b64decode(line["audio"]) for line in lines)
    words = [word for line in lines for word in line["timestamps"]]
    return sound, words, [piece["ending"] for piece in lines[-1]["pieces"]]


def test_onnx_tells_the_words_and_times_of_torch(tmp_path):
    exported = tmp_path / "exported"
    exporter.export(exporter.source_of_folder(DEMO), exported, ["fp32"])
    ways: tuple[dict[str, Any], ...] = ({}, {"stream": False})
    with embedded(tmp_path / "torch") as service:
        wanted = [words_of(service, **how) for how in ways]
    with embedded(tmp_path / "onnx", backend="onnx", voice=str(exported)) as service:
        found = [words_of(service, **how) for how in ways]
    for (sound, words, endings), (torchs, torchs_words, torchs_endings) in zip(
        found, wanted, strict=True
    ):
        # As many codes, so the same ones: another code changes all that come behind it.
        assert len(sound) == len(torchs) > 48_000 and endings == torchs_endings
        assert [one["word"] for one in words] == [one["word"] for one in torchs_words]
        assert [one["word"] for one in words] == TEXT.replace(".", "").split()
        times, torchs_times = (
            np.array([(one["start_time"], one["end_time"]) for one in told])
            for told in (words, torchs_words)
        )
        assert np.abs(times - torchs_times).max() <= CODE_SECONDS + 1e-6
        assert (np.diff(times.ravel()) >= -1e-6).all() and times[-1, 1] > times[0, 0]
