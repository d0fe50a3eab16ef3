"""Benchmarks speak as the product does: with the guard, and each text once."""

from typing import Any

import pytest
import torch

from benchmarks import synthetic
from xtts.inference import speech
from xtts.inference.alignment.guard import Ending
from xtts.inference.alignment.guarded_piece import Guard, GuardedPiece
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.model.config import ModelConfig
from xtts.model.loading import load_model, read_tensors

CODES = 8
REQUEST = SynthesisRequest(synthetic.TEXT, "en", max_codes=CODES)


@pytest.fixture
def guards(monkeypatch: pytest.MonkeyPatch) -> list[Guard | None]:
    """The guard of each spoken piece."""
    seen: list[Guard | None] = []
    real = GuardedPiece.__init__

    def noted(piece: GuardedPiece, guard: Guard | None, *rest: Any, **how: Any) -> None:
        seen.append(guard)
        real(piece, guard, *rest, **how)

    monkeypatch.setattr(GuardedPiece, "__init__", noted)
    return seen


def test_a_text_that_cannot_end_is_judged_and_said_once(base_folder):
    made = synthetic.torch_voice(base_folder, "fp32")
    guard = synthetic.new_guard(made.backend.model)
    speech.synthesize(made.backend, made.voice, REQUEST, guard)
    for piece in guard.pieces:
        assert (piece.ending, piece.attempts, piece.codes) == (Ending.CUT, 1, CODES)
    assert guard.pieces


@pytest.mark.parametrize(
    "speaks",
    [
        lambda base: synthetic.torch_voice(base, "fp32").say(REQUEST),
        lambda base: synthetic.torch_voice(base, "int8", low_memory=True).begin(REQUEST),
        pytest.param(
            lambda base: synthetic.onnx_voice(base, "fp32", 1).begin(REQUEST), marks=pytest.mark.slow
        ),
    ],
    ids=["torch", "low memory", "onnx"],
)
def test_the_guard_is_on(speaks, base_folder, guards):
    speaks(base_folder)
    assert guards and all(guard is not None and guard.retries == 0 for guard in guards)


def test_a_smaller_base_speaks_with_the_kept_layers(base_folder, tmp_path):
    small = synthetic.smaller_base(base_folder, tmp_path / "small", 1)
    state, before = (read_tensors(one / "model.pth") for one in (small, base_folder))
    assert ModelConfig.read(small).gpt.layers == 1
    assert all(torch.equal(tensor, before[name]) for name, tensor in state.items())
    left = before.keys() - state.keys()
    assert left and all(name.startswith("gpt.gpt.h.1.") for name in left)
    assert load_model(small, precision="fp32").gpt.shape.layers == 1
