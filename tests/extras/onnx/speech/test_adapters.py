"""Adapters need PyTorch: an ONNX voice has none."""

import pytest

from extras.onnx.folder import OnnxError
from tests.models import tiny_voice
from tests.xtts.voices.adapters import exported_adapter
from xtts.inference.compute_config import ComputeConfig
from xtts.voices.loading import load_voice
from xtts.voices.voice_files import VoiceSpec


def test_onnx_runtime_has_no_adapters_and_says_what_to_do(tmp_path, onnx_folder):
    base = tiny_voice(tmp_path / "tiny")
    anna = exported_adapter(tmp_path / "anna", base, seed=1)
    where = ComputeConfig(backend="onnx", latents_folder=tmp_path)
    with pytest.raises(OnnxError, match="anna is an adapter, which only PyTorch supports"):
        load_voice(VoiceSpec(str(anna)), where)
    standing = load_voice(VoiceSpec(str(onnx_folder)), where)
    with pytest.raises(OnnxError, match=r"BACKEND=torch, or export the whole voice"):
        standing.voice_of(anna, None)
