"""Pauses have an exact length in samples: whole, streamed and in a batch."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.models import drawn_voice
from tests.xtts.inference.crowds import sounds_of
from xtts.inference import speech
from xtts.inference.defaults import FADE_SECONDS
from xtts.inference.speech import ContinuousBatcher
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.inference.torch_backend import TorchBackend
from xtts.inference.voice import Voice
from xtts.model import loading
from xtts.model.loading import Model
from xtts.model.shapes import VOCODER_RATE

TEXT = "[pause:120ms]one two[pause:500ms]three[pause:1.25s]four\n\nfive[pause:300ms]"
SECONDS = [0.12, 0.5, 1.25, 0.6, 0.3]
CODES = 6
Spoken = Callable[[], np.ndarray[Any, Any]]


@pytest.fixture(scope="module")
def model(base_folder: Path) -> Model:
    return loading.load_model(base_folder)


@pytest.fixture(scope="module")
def voice() -> Voice:
    return drawn_voice()


def zeros(sound: np.ndarray[Any, Any]) -> list[float]:
    """Lengths in seconds of the runs of exact zeros that are longer than 50 ms."""
    silent = np.concatenate(([False], sound == 0, [False]))
    edges = np.flatnonzero(silent[1:] != silent[:-1])
    lengths = (edges[1::2] - edges[::2]) / VOCODER_RATE
    return [float(length) for length in lengths if length > 0.05]


def joined(chunks: Iterable[Any]) -> np.ndarray[Any, Any]:
    return np.concatenate([np.asarray(chunk) for chunk in chunks])


def test_pauses_are_within_ten_milliseconds_however_it_is_spoken(model, voice):
    backend, ask = TorchBackend(model), SynthesisRequest(TEXT, "en", seed=2, max_codes=CODES)
    batcher = ContinuousBatcher(TorchBackend(model, 2))
    other = SynthesisRequest("hello there", "en", seed=1, max_codes=CODES)
    among_others = sounds_of(batcher, voice, {"paused": ask, "other": other})
    assert zeros(among_others["other"]) == []
    ways: dict[str, Spoken] = {
        "whole": lambda: speech.synthesize(backend, voice, ask).numpy(),
        "twice as fast": lambda: speech.synthesize(backend, voice, replace(ask, speed=2.0)).numpy(),
        "streamed": lambda: joined(speech.Speech(backend, voice, ask).chunks()),
        "among others": lambda: among_others["paused"],
    }
    for name, speak in ways.items():
        pauses = zeros(speak())
        assert pauses == pytest.approx(SECONDS, abs=0.010), name


def test_a_text_without_pauses_is_the_same_to_the_bit(model, voice):
    """A single piece is not faded, as before pauses existed."""
    ids = [piece.ids for piece in model.tokenizer.split("one two", "en")]
    whole = speech.synthesize(
        TorchBackend(model), voice, SynthesisRequest("one two", "en", seed=2, max_codes=CODES)
    )
    paused = speech.synthesize(
        TorchBackend(model), voice, SynthesisRequest("one two[pause:1s]", "en", seed=2, max_codes=CODES)
    )
    fade = round(FADE_SECONDS * VOCODER_RATE)
    assert len(ids) == 1 and len(paused) == len(whole) + VOCODER_RATE
    assert torch.equal(paused[fade : len(whole) - fade], whole[fade:-fade])


@pytest.mark.parametrize("chunked", [True, False])
@pytest.mark.parametrize("text", ["one two[pause:1s]", "[pause:1s]one two", "one[pause:1s]two"])
def test_sound_that_meets_a_pause_is_faded(model, voice, text, chunked):
    """A step from sound to exact zeros sounds like a click."""
    request = SynthesisRequest(text, "en", seed=2, max_codes=CODES)
    backend = TorchBackend(model)
    sound = joined(speech.Speech(backend, voice, request, chunked=chunked).chunks())
    silent = np.flatnonzero(np.convolve(sound == 0, np.ones(1000), "valid") == 1000)
    first, last = silent[0], silent[-1] + 1000
    fade = round(FADE_SECONDS * VOCODER_RATE)
    loud = np.abs(sound).max()
    for edge in (sound[max(first - fade, 0) : first][::-1], sound[last : last + fade]):
        if not len(edge):
            continue  # the text begins or ends with the pause
        # The first tenth of the fade has at most about a tenth of the level.
        tenth = fade // 10
        assert np.abs(edge[:tenth]).max() < 0.15 * loud
        assert np.abs(edge).max() > 0
