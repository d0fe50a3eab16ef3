"""The same codes get the same verdict and times in torch alone, in torch eight at once, and in ONNX
Runtime with float32 and int8."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from extras.onnx.export import exporter
from extras.onnx.speech import backend as onnx_backend
from tests.xtts.inference.crowds import batcher_of, said_in, sounds_of
from xtts.inference import torch_backend
from xtts.inference.alignment.guard import CODE_SECONDS, Ending
from xtts.inference.alignment.guarded_piece import SpokenPiece
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.loaded_voice import LoadedVoice
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.voices.base_models import DEMO
from xtts.voices.loading import load_voice
from xtts.voices.voice_files import VoiceSpec

pytestmark = pytest.mark.slow
TEXT = "We walked along the river."
STOP = 1025


class ForcedCodes:
    """Replaces sampling: each generator draws the next of the same codes."""

    def __init__(self) -> None:
        self.codes: Sequence[int] = ()
        self._drawn: dict[int, tuple[object, int]] = {}

    def next(self, generator: object) -> int:
        _, count = self._drawn.get(id(generator), (generator, 0))
        self._drawn[id(generator)] = generator, count + 1
        return self.codes[count] if count < len(self.codes) else STOP


@pytest.fixture
def force(monkeypatch: pytest.MonkeyPatch) -> ForcedCodes:
    forced = ForcedCodes()
    monkeypatch.setattr(
        torch_backend,
        "sample",
        lambda _, __, ___, random: torch.tensor([forced.next(generator) for generator in random]),
    )
    monkeypatch.setattr(onnx_backend, "sample", lambda _, __, ___, random: forced.next(random))
    return forced


@pytest.fixture(scope="module")
def torchs() -> LoadedVoice:
    return load_voice(VoiceSpec("demo"), ComputeConfig(precision="fp32"))


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, LoadedVoice]:
    folder = tmp_path_factory.mktemp("onnx") / "demo"
    exporter.export(exporter.source_of_folder(DEMO), folder, ["fp32", "int8"])
    return {
        kind: load_voice(VoiceSpec(str(folder)), ComputeConfig(precision=kind, backend="onnx"))
        for kind in ("fp32", "int8")
    }


@pytest.fixture(scope="module")
def good(torchs: LoadedVoice) -> list[int]:
    """The codes that the voice samples for the text."""
    voice = torchs
    (piece,) = voice.model.tokenizer.split(TEXT, "en")
    generator = torch.Generator().manual_seed(1)
    state = torch_backend.TorchUtterance(voice.model.gpt, voice.model.config.decoding, generator)
    torch_backend.decode(voice.model.gpt, voice.own_voice.latents, [(torch.tensor(piece.ids), state)])
    return state.codes


def streamed(voice: LoadedVoice) -> SpokenPiece:
    ask = SynthesisRequest(TEXT, "en", seed=1)
    guard = voice.guard(ask)
    for _ in voice.speech(ask, guard).chunks():
        pass
    (piece,) = guard.pieces
    return piece


def eight_at_once(voice: LoadedVoice) -> list[SpokenPiece]:
    asked = {str(number): SynthesisRequest(TEXT, "en", seed=number) for number in range(8)}
    said = said_in(batcher_of(voice, 8), voice.own_voice, asked)
    return [output.speech.pieces[0] for output in said if output.speech.done]


def test_every_backend_says_the_same_of_the_same_codes(torchs, exported, good, force):
    assert set(exported["fp32"].heads) == set(torchs.heads)
    faulty = (good[: len(good) // 2], [*good[:-5], *good[len(good) // 2 : -5], *good[-5:]])
    for codes in (good, *faulty):
        force.codes = codes
        expected = streamed(torchs)
        assert expected.aligned and (expected.ending is Ending.GOOD) == (codes is good)
        others = [*eight_at_once(torchs), *(streamed(voice) for voice in exported.values())]
        assert len(others) == 10
        for found in others:
            assert (found.ending, found.aligned) == (expected.ending, True)
            assert np.abs(found.times - expected.times).max() <= CODE_SECONDS + 1e-6


def sounds(voice: LoadedVoice, *, guarded: bool, speed: float) -> dict[str, np.ndarray[Any, Any]]:
    """The text whole, streamed, and in a batch of four of which half are whole."""
    voice = copy.copy(voice)
    voice.guarded = guarded
    ask = SynthesisRequest(TEXT, "en", seed=1, speed=speed)
    found = {
        "whole": voice.synthesize_guarded(ask, voice.guard(ask)),
        "streamed": np.concatenate(list(voice.speech(ask, voice.guard(ask)).chunks())),
    }
    asked = {
        f"among others {number}": replace(ask, seed=number, whole=number % 2 == 0) for number in range(4)
    }
    return found | sounds_of(batcher_of(voice, 4), voice.own_voice, asked)


@pytest.mark.parametrize("kind", ["torch", "fp32", "int8"])
@pytest.mark.parametrize("speed", [1.0, 1.5])
def test_where_nothing_is_wrong_the_guard_changes_no_bit(torchs, exported, good, force, kind, speed):
    voice = torchs if kind == "torch" else exported[kind]
    force.codes = good
    without = sounds(voice, guarded=False, speed=speed)
    found = sounds(voice, guarded=True, speed=speed)
    assert found.keys() == without.keys() and len(found) == 6
    for name, sound in found.items():
        assert len(sound) > 12_000 and np.array_equal(sound, without[name]), name
