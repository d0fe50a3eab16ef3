"""Latents on disk: computed once for a recording and a model, and readable after an update."""

from pathlib import Path

import pytest
import soundfile
import torch

from machine.storage.checksums import sha256_of
from tests.datasets import a_sound
from xtts.inference import latents_file, voice
from xtts.inference.latents_file import latents_of_recording
from xtts.inference.voice import Voice
from xtts.model.loading import Model, load_model

WEIGHTS = "ab" * 32


@pytest.fixture(scope="module")
def model(base_folder: Path) -> Model:
    return load_model(base_folder)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recording") / "voice.wav"
    soundfile.write(path, a_sound(2.0, 22_050), 22_050)
    return path


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Voice]:
    """All computed voices."""
    voices_made: list[Voice] = []
    real = voice.voice_from_reference

    def computed(*given: object) -> Voice:
        voices_made.append(real(*given))  # type: ignore[arg-type]
        return voices_made[-1]

    monkeypatch.setattr(voice, "voice_from_reference", computed)
    return voices_made


def test_a_recording_is_encoded_once(model, recording, made, tmp_path):
    first, again = (latents_of_recording(model, WEIGHTS, recording, tmp_path) for _ in range(2))
    assert len(made) == 1
    assert torch.equal(first.latents, again.latents) and torch.equal(first.speaker, again.speaker)
    latents_of_recording(model, "cd" * 32, recording, tmp_path)  # other weights, other latents
    assert len(made) == 2


def test_latents_of_a_deleted_voice_are_gone(model, recording, tmp_path):
    """Those of this version, and those that an earlier version stored in the folder itself."""
    latents_of_recording(model, WEIGHTS, recording, tmp_path)
    path = latents_file.path_of(tmp_path, WEIGHTS, sha256_of(recording))
    (tmp_path / path.name).write_bytes(path.read_bytes())
    latents_file.delete(tmp_path, sha256_of(recording))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("harm", [b"", b"damage"])
def test_damaged_latents_are_made_again(model, recording, made, tmp_path, harm):
    latents_of_recording(model, WEIGHTS, recording, tmp_path)
    path = latents_file.path_of(tmp_path, WEIGHTS, sha256_of(recording))
    path.write_bytes(harm)
    latents_of_recording(model, WEIGHTS, recording, tmp_path)
    assert len(made) == 2 and latents_file.read(path, model) is not None
