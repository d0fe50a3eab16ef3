"""The ONNX vocoder of a model with Coqui's sizes and a learned decoder."""

import numpy as np
import onnxruntime
import pytest
import torch

from extras.onnx import folder as onnx_folder
from extras.onnx.export import exporter
from tests.peers.test_export import FULL, SMALL, coquis_base, files_of, learned_decoder_of, perturbed
from train.export import export
from xtts.inference.compute_config import ComputeConfig
from xtts.model.config import ModelConfig
from xtts.voices.loading import load_voice
from xtts.voices.voice_files import VoiceSpec


@pytest.mark.slow
@torch.no_grad()
@pytest.mark.parametrize("sizes", [SMALL, FULL])
def test_the_graph_makes_the_sound_of_torch(tmp_path, sizes):
    base = coquis_base(tmp_path / "base", sizes)
    config = ModelConfig.read(base)
    checkpoint = perturbed(base, tmp_path / "output", config.gpt.text_ids)
    learned_decoder_of(checkpoint, base)
    export(files_of(checkpoint, base), voice := tmp_path / "voice")
    exact = ComputeConfig(precision="fp32")
    vocoder = load_voice(VoiceSpec(str(voice), tos_agreed=True), exact).model.vocoder
    draw = torch.Generator().manual_seed(0)
    latents = torch.randn(1, 20, config.gpt.width, generator=draw)
    speaker = torch.nn.functional.normalize(torch.randn(1, 512, 1, generator=draw), dim=1)
    exporter.export(exporter.source_of_folder(voice), to := tmp_path / "onnx", ["int8"])
    session = onnxruntime.InferenceSession(
        str(to / onnx_folder.VOCODER_FILE), providers=["CPUExecutionProvider"]
    )
    steps = vocoder.steps(latents, speaker)
    (said,) = session.run(None, {"steps": steps.numpy(), "speaker": speaker.numpy()})
    expected = vocoder.sound(steps, speaker).numpy()
    assert np.abs(said - expected).max() < 1e-3 * np.abs(expected).max()
