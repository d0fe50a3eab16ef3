"""Pauses are as long with ONNX Runtime as with torch (`tests/xtts/inference/test_pauses.py`)."""

import pytest

from extras.onnx.speech.backend import OnnxBackend
from tests.xtts.inference.test_pauses import CODES, SECONDS, TEXT, joined, zeros
from xtts.inference import speech
from xtts.inference.synthesis_request import SynthesisRequest


@pytest.mark.parametrize("streamed", [False, True])
def test_pauses_are_within_ten_milliseconds(onnx_model, onnx_voice, streamed):
    backend, ask = OnnxBackend(onnx_model), SynthesisRequest(TEXT, "en", seed=2, max_codes=CODES)
    sound = joined(speech.Speech(backend, onnx_voice, ask, chunked=streamed).chunks())
    assert zeros(sound) == pytest.approx(SECONDS, abs=0.010)
