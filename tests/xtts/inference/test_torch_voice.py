"""A voice that PyTorch computes: whose speaker embedding it speaks with."""

import shutil
from dataclasses import replace
from pathlib import Path

import torch

from tests.xtts.voices.test_learned_speaker import LEARNED
from xtts.voices import learned_speaker
from xtts.voices.base_models import DEMO
from xtts.voices.loading import load_voice
from xtts.voices.voice_files import VoiceSpec, find_voice


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
    assert find_voice(other).speaker is None
