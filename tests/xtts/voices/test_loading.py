"""A voice that stands ready to speak: what is done before the first request."""

from pathlib import Path

import pytest
import torch

from tests.models import tiny_voice
from tests.xtts.inference.crowds import sounds_of
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.model.vocoder import Vocoder
from xtts.voices.loading import load_voice
from xtts.voices.voice_files import VoiceSpec


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tiny_voice(tmp_path / "base")


@pytest.fixture
def widths(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Of everything that any vocoder is given, in its order."""
    seen, sound = list[int](), Vocoder.sound

    def spied(self: Vocoder, steps: torch.Tensor, speaker: torch.Tensor) -> torch.Tensor:
        seen.append(steps.shape[2])
        return sound(self, steps, speaker)

    monkeypatch.setattr(Vocoder, "sound", spied)
    return seen


@pytest.mark.parametrize("low_memory", [False, True])
def test_the_first_request_finds_the_vocoder_warm(folder, widths, low_memory):
    """Code is made for each width, 1.5 s at full size: not while somebody waits for a word."""
    standing = load_voice(
        VoiceSpec(str(folder)), ComputeConfig(low_memory=low_memory, threads=1), {}
    )
    standing.prepare()
    assert standing.own is not None
    made, model = set(widths), standing.model
    assert set(model.vocoder.widths) < made
    widths.clear()
    ask = SynthesisRequest("hello there", "en", max_codes=60)
    sounds_of(standing.batcher(1), standing.own, {"one": ask})
    assert widths and set(widths) <= made
