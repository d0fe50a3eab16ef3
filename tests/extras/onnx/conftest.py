"""One tiny model in torch and in ONNX for the whole session: do not write into either."""

from pathlib import Path

import pytest

from extras.onnx.speech.loading import OnnxModel, load_onnx_model
from tests.models import drawn_voice
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.voice import Voice
from xtts.model import loading as model
from xtts.model.loading import Model


@pytest.fixture(scope="session")
def onnx_model(onnx_folder: Path) -> OnnxModel:
    return load_onnx_model(onnx_folder, ComputeConfig(precision="fp32"))


@pytest.fixture(scope="session")
def torch_model(base_folder: Path) -> Model:
    return model.load_model(base_folder)


@pytest.fixture(scope="session")
def torch_voice() -> Voice:
    return drawn_voice()


@pytest.fixture(scope="session")
def onnx_voice(torch_voice: Voice) -> Voice:
    return Voice(torch_voice.latents.numpy(), torch_voice.speaker.numpy())
