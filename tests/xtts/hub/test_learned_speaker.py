"""The file of a learned speaker embedding, and the voices that are opened with it."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from xtts.hub import bundle, learned_speaker
from xtts.hub.base_models import DEMO
from xtts.hub.bundle import VoiceSpec
from xtts.hub.learned_speaker import LearnedSpeaker
from xtts.workers.voice_registry import load_voice

LEARNED = LearnedSpeaker(
    epoch=3,
    share=0.5,
    checkpoint_sha256="c" * 64,
    speaker_embedding=[i / 512 for i in range(512)],
    distance_before=2.3,
    distance_after=2.1,
    clips=40,
)


def test_what_is_written_is_read_to_the_bit(tmp_path: Path) -> None:
    path = tmp_path / "best_speaker.json"
    learned_speaker.write(path, LEARNED)
    assert learned_speaker.read(path) == LEARNED
    assert LEARNED.tensor().shape == (1, 512, 1)
    assert LEARNED.tensor().flatten().tolist() == LEARNED.speaker_embedding


@pytest.mark.parametrize("content", ["", "[]", '{"epoch": 1}', '{"epoch": "x'])
def test_a_damaged_one_is_left_out_with_a_line(
    tmp_path: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "best_speaker.json"
    path.write_text(content)
    assert learned_speaker.read(path) is None
    assert "best_speaker.json cannot be read and is left out" in caplog.text


def test_one_of_a_later_schema_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "best_speaker.json"
    learned_speaker.write(path, replace(LEARNED, schema=2))
    assert learned_speaker.read(path) is None


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
