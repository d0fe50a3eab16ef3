"""A voice that stands ready to speak: what is done before the first request."""

from pathlib import Path

import pytest
import soundfile
import torch

from tests.models import tiny_base
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.loaded_voice import LoadedVoice
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.inference.voice import Voice
from xtts.model.vocoder import Vocoder
from xtts.voices.loading import load_voice
from xtts.voices.voice_files import VoiceSpec


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tiny_base(tmp_path / "base")
    wave = 0.1 * torch.randn(22_050, generator=torch.Generator().manual_seed(0))
    soundfile.write(found / "reference.wav", wave.numpy(), 22_050)
    return found


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
def test_the_first_request_finds_the_vocoder_warm(
    folder: Path, widths: list[int], low_memory: bool
) -> None:
    """Code is made for each width, 1.5 s at full size: not while somebody waits for a word."""
    standing = load_voice(
        VoiceSpec(str(folder)), ComputeConfig(low_memory=low_memory, threads=1), {}
    )
    standing.prepare()
    assert standing.own is not None
    made, model = set(widths), standing.model
    assert set(model.vocoder.widths) < made
    widths.clear()
    spoken(standing, standing.own, max_codes=60)
    assert widths and set(widths) <= made


def spoken(standing: LoadedVoice, voice: Voice, max_codes: int) -> int:
    """Samples that a crowd of one says."""
    crowd = standing.crowd(1)
    crowd.enter("one", voice, SynthesisRequest("hello there", "en", max_codes=max_codes))
    samples = 0
    while crowd.busy:
        samples += sum(len(chunk) for said in crowd.step() for chunk in said.chunks)
    return samples
