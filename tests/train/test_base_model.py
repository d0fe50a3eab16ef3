"""Where BASE_MODEL is, and whether it can be trained."""

from pathlib import Path

import pytest
import torch

from machine.settings.loading import SharedSettings
from tests.models import tiny_base
from tests.published import publish_folder
from tests.xtts.voices.base_folders import ALL, change_tensor
from train.base_model import check_base, chosen_base, named_base
from xtts.model.config import ConfigError
from xtts.voices.base_models import BundleError
from xtts.voices.loading import load_voice
from xtts.voices.voice_files import VoiceSpec


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tiny_base(tmp_path / "base")


def test_the_demo_and_folders_are_found_and_are_complete(base):
    assert chosen_base(SharedSettings()).name == "demo"
    assert chosen_base(SharedSettings(base_model=str(base))) == base


def test_a_folder_that_is_none_is_named():
    with pytest.raises(BundleError, match="BASE_MODEL=nowhere is not a folder"):
        named_base(SharedSettings(base_model="nowhere"))


def test_published_weights_are_not_loaded_before_their_licence_is_agreed_to(base, monkeypatch):
    publish_folder(monkeypatch, base)
    with pytest.raises(BundleError, match="COQUI_TOS_AGREED=1 if you agree"):
        named_base(SharedSettings(base_model=str(base)))
    assert named_base(SharedSettings(base_model=str(base), coqui_tos_agreed=True)) == base


def test_weights_in_the_format_of_an_old_torch_pass_too(base):
    for name in ("model.pth", "dvae.pth"):
        found = torch.load(base / name, weights_only=True)
        torch.save(found, base / name, _use_new_zipfile_serialization=False)
    check_base(base)
    assert load_voice(VoiceSpec(str(base))).model.gpt is not None


@pytest.mark.parametrize("name", ALL[:4])
def test_each_missing_file_is_named_with_where_it_comes_from(base, name):
    (base / name).unlink()
    with pytest.raises(BundleError, match=rf"{name}: It is published "):
        check_base(base)
    for other in {"dvae.pth", "vocab.json"} - {name}:  # one error lists all
        (base / other).unlink()
    with pytest.raises(BundleError, match=r"(?s)vocab\.json.*dvae\.pth"):
        check_base(base)


def test_mel_statistics_may_be_in_the_weights_or_in_their_own_file(base):
    (base / "mel_stats.pth").unlink()
    check_base(base)
    change_tensor(base / "model.pth", "mel_stats", None)
    with pytest.raises(BundleError, match=r"mel_stats\.pth: It is published in the same"):
        check_base(base)


@pytest.mark.parametrize("name", ALL[:4])
def test_a_file_that_cannot_be_read_is_named(base, name):
    (base / name).write_bytes(b"<html>404</html>")
    told = "cannot be read as JSON" if name.endswith("json") else ""
    with pytest.raises(ConfigError, match=rf"{name}.*{told}"):
        check_base(base)


@pytest.mark.parametrize(
    ("name", "tensor", "value"),
    [
        ("model.pth", "gpt.text_head.weight", torch.zeros(3, 64)),
        ("model.pth", "gpt.gpt.h.1.attn.c_attn.weight", torch.zeros(64, 64)),
        ("model.pth", "gpt.gpt.h.1.attn.c_attn.weight", None),
        ("model.pth", "hifigan_decoder.waveform_decoder.conv_pre.weight", torch.zeros(2, 64, 7)),
        ("model.pth", "hifigan_decoder.speaker_encoder.conv1.weight", torch.zeros(2, 1, 3, 3)),
        ("dvae.pth", "codebook.embed", torch.zeros(32, 8)),
    ],
)
def test_tensors_of_another_model_are_named(base, name, tensor, value):
    change_tensor(base / name, tensor, value)
    with pytest.raises(ConfigError, match=rf"{name}.*{tensor}"):
        check_base(base)
