"""The ONNX sides of the benchmarks say what they are asked for."""

from pathlib import Path

import pytest
import torch

from benchmarks import onnx_voice, synthetic
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.inference.voice import Voice
from xtts.model.shapes import VOCODER_RATE


@pytest.mark.slow
def test_a_contestant_says_so_many_codes_and_a_chunk_first(tmp_path: Path) -> None:
    folder = synthetic.write_base(tmp_path / "base", full=False)
    whole, first = onnx_voice.contestant(folder, 12, "fp32", "one two three.", 1)()
    assert whole > 0 and first > 0
    assert (onnx_voice.folder_of(folder) / "onnx.json").is_file()


@pytest.mark.parametrize("low", [False, True])
def test_a_sayer_speaks_with_a_voice_that_torch_heard(base_folder: Path, low: bool) -> None:
    heard = Voice(torch.randn(1, 32, 64), torch.nn.functional.normalize(torch.randn(1, 512, 1)))
    say = onnx_voice.sayer(base_folder, heard, "onnx-int8", low=low)
    request = SynthesisRequest("one two.", "en", seed=3)
    found = say(request, None)
    assert found.dtype == torch.float32 and 0 < len(found) < 40 * VOCODER_RATE
    assert torch.equal(found, say(request, None))
