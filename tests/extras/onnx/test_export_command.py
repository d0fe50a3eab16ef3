"""`python -m train export --onnx`: an epoch as an ONNX voice with the learned weights."""

import numpy as np
import pytest

from extras.onnx import folder
from extras.onnx.speech import loading as model
from extras.onnx.speech.backend import OnnxBackend
from tests.models import tiny_base
from tests.train.test_export import perturbed
from train.__main__ import main
from xtts.inference import speech
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.model.loading import read_tensors


def test_an_epoch_speaks_with_its_own_weights_and_voice(tmp_path, caplog, monkeypatch):
    monkeypatch.chdir(tmp_path)
    base = tiny_base(tmp_path / "base")
    checkpoint, to = perturbed(base, tmp_path / "output"), tmp_path / "onnx"
    assert main(["export", "--checkpoint", str(checkpoint), "--to", str(to), "--onnx", "fp32"]) == 0
    assert "Random weights, free to use" in caplog.text
    assert folder.read(to).kinds == ("fp32",)
    table = np.load(to / folder.EMBEDDINGS_FILE)
    expected = read_tensors(base / "model.pth")["gpt.text_embedding.weight"].float() + 0.01
    assert np.allclose(table[: len(expected)], expected.numpy())
    loaded = model.load_onnx_model(to, ComputeConfig(precision="fp32"))
    voice = model.read_voice(to / folder.LATENTS_FILE, loaded.config)
    assert (
        len(speech.synthesize(OnnxBackend(loaded), voice, SynthesisRequest("one two.", "en", max_codes=10)))
        > 0
    )


def test_a_kind_that_there_is_not_is_refused(tmp_path):
    with pytest.raises(SystemExit):
        main(["export", "--checkpoint", "a", "--to", "b", "--onnx", "int2"])
