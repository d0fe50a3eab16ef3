"""A voice that PyTorch computes: whose speaker embedding it speaks with."""

import shutil
from dataclasses import replace
from pathlib import Path

import torch

from tests.xtts.voices.test_learned_speaker import LEARNED
from xtts.voices import bundle, learned_speaker
from xtts.voices.base_models import DEMO
from xtts.voices.bundle import VoiceSpec
from xtts.workers.voice_registry import load_voice


def test_a_folder_with_one_speaks_with_it_unless_another_recording_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "voice"
    shutil.copytree(DEMO, folder)
    plain = load_voice(VoiceSpec(str(folder), tos_agreed=True)).own
    learned_speaker.write(folder / learned_speaker.NAME, LEARNED)
    spec = VoiceSpec(str(folder), tos_agreed=True)
    found = load_voice(spec).own
    assert found is not None and plain is not None
    assert torch.equal(found.speaker, LEARNED.tensor())
    assert torch.equal(found.latents, plain.latents)
    other = replace(spec, reference=folder / "reference.wav")
    assert bundle.find_voice(other).speaker is None
