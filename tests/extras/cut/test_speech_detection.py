"""The choice of speech detector; both find the same speech."""

import argparse
import importlib.util
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile

from extras.cut import speech_detection, verb
from extras.cut.profile import MIN_PAUSE_SECONDS
from extras.cut.speech_detection import (
    MIN_TEXTLESS_PAUSE_SECONDS,
    VAD_FRAME_SECONDS,
    LevelDetector,
    find_detector,
    speech_spans,
)
from tests.installed import ROOT
from tests.tapes import join_demo

NUMBERS = [1, 2, 3]


@pytest.mark.skipif(importlib.util.find_spec("silero_vad") is None, reason="make lock brings it")
def test_an_installation_by_the_locks_takes_silero():
    assert find_detector().description == "Silero VAD"


@pytest.mark.parametrize(
    ("has_package", "has_model", "reason"),
    [
        (False, False, "silero-vad is not installed"),
        (True, False, "silero-vad has no data/"),
        (True, True, "onnxruntime is not installed"),
    ],
)
def test_where_something_is_missing_the_level_tells_and_why(
    tmp_path, monkeypatch, has_package, has_model, reason
):
    package = SimpleNamespace(origin=str(tmp_path / "__init__.py")) if has_package else None
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: package)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    if has_model:
        (tmp_path / "data").mkdir()
        (tmp_path / speech_detection._MODEL).write_bytes(b"a model")
    detector = find_detector()
    assert isinstance(detector, LevelDetector) and reason in detector.description


@pytest.mark.parametrize("name", ["silero", "level"])
def test_speech_is_found_where_it_is(tmp_path, name):
    if name == "silero":
        pytest.importorskip("silero_vad")
    detector = find_detector() if name == "silero" else LevelDetector("it is tested")
    spans = join_demo(tmp_path / "tape.wav", NUMBERS, pause=1.2)
    samples, _ = soundfile.read(tmp_path / "tape.wav", dtype="float32")
    found = speech_spans(detector.listen(np.asarray(samples)))
    for start, end in spans:
        covered = sum(max(min(end, last) - max(start, first), 0.0) for first, last in found)
        assert covered > 0.75 * (end - start)
    outside = sum(last - first for first, last in found) - sum(end - start for start, end in spans)
    assert outside < 0.3 * len(spans)


@pytest.mark.parametrize("frames", range(1, 40))
def test_speech_is_cut_at_the_shortest_pause_that_is_told(frames):
    speech = np.ones(30)
    spans = speech_spans(np.concatenate((speech, np.zeros(frames), speech)))
    is_cut = frames * VAD_FRAME_SECONDS >= MIN_TEXTLESS_PAUSE_SECONDS
    assert len(spans) == (2 if is_cut else 1)


def test_the_help_tells_the_shortest_pauses():
    parser = argparse.ArgumentParser()
    verb.add_arguments(parser)
    told = " ".join(parser.format_help().split())
    assert (
        f"The shortest pause for a cut is {MIN_PAUSE_SECONDS} s with a text, and "
        f"{MIN_TEXTLESS_PAUSE_SECONDS} s without" in told
    )


def test_the_page_tells_the_shortest_pause_that_is_cut_without_a_text():
    page = (ROOT / "docs/develop/cutting.md").read_text(encoding="utf-8")
    assert f"without a text {MIN_TEXTLESS_PAUSE_SECONDS:g} s" in page
