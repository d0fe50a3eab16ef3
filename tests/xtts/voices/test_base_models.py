"""Where a base model is, and whether it can be trained."""

import json
from pathlib import Path

import pytest
import torch

from machine.storage.atomic import Written
from machine.storage.hashes import sha256_of
from tests.models import tiny_voice
from tests.published import publish_folder
from tests.xtts.voices.base_folders import ALL, change_tensor
from xtts.download import xtts_v2 as published
from xtts.download.xtts_v2 import XTTS_V2
from xtts.model.config import CPML, ConfigError
from xtts.voices import bundle
from xtts.voices.base_models import BundleError, check_base, licence_in_brief, locate_base
from xtts.voices.loading import load_voice
from xtts.voices.voice_files import VoiceSpec, find_voice


def test_the_demo_and_folders_are_found_and_are_complete(base):
    check_base(locate_base("demo"))
    assert locate_base(str(base)) == base
    check_base(base)


def test_a_folder_that_is_none_is_named():
    with pytest.raises(BundleError, match="BASE_MODEL=nowhere is not a folder"):
        locate_base("nowhere")


def test_published_weights_are_not_loaded_before_their_licence_is_agreed_to(base, monkeypatch):
    publish_folder(monkeypatch, base)
    with pytest.raises(BundleError, match="COQUI_TOS_AGREED=1 if you agree"):
        locate_base(str(base))
    assert locate_base(str(base), tos_agreed=True) == base


def coqui(folder: Path) -> None:
    """Writes config.json as Coqui's trainer does: without a licence."""
    config = json.loads((folder / "config.json").read_text())
    del config["sotaque"]["licence"]
    (folder / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize(
    "made_from", ["published weights", "no licence", "an export's licence", "a base's name",
                  "a base's hash"],
)  # fmt: skip
def test_what_is_or_was_made_from_xtts_v2_asks_for_consent(tmp_path, monkeypatch, made_from):
    """It is recognised by its weights, its licence or its base, whatever its name."""
    folder = tiny_voice(tmp_path / "voice")
    licence, base = "Random weights, free to use", {"name": "demo", "sha256": "a" * 64}
    if made_from == "published weights":
        publish_folder(monkeypatch, folder)
    elif made_from == "no licence":
        coqui(folder)
    else:
        licence = CPML if made_from == "an export's licence" else licence
        if made_from == "a base's name":
            base["name"] = "xtts_v2"
        elif made_from == "a base's hash":
            base["sha256"] = XTTS_V2["model.pth"].sha256
        files = {
            name: Written(sha256_of(folder / name), (folder / name).stat().st_size)
            for name in ("config.json", "model.pth", "vocab.json")
        }
        bundle.write(folder, bundle.Bundle(files, base, "d", 1, licence, "", False))
    with pytest.raises(BundleError, match=r"voice is Coqui's XTTS-v2 or was made from it.*AGREED"):
        find_voice(VoiceSpec(str(folder)))
    assert find_voice(VoiceSpec(str(folder), tos_agreed=True)).folder == folder


def test_an_export_of_another_base_asks_nothing(tmp_path):
    folder = tiny_voice(tmp_path / "voice")
    files = {
        name: Written(sha256_of(folder / name), (folder / name).stat().st_size)
        for name in ("config.json", "model.pth", "vocab.json")
    }
    bundle.write(
        folder, bundle.Bundle(files, {"name": "demo", "sha256": "a"}, "d", 1, "MIT", "", False)
    )
    assert find_voice(VoiceSpec(str(folder))).licence == "MIT"
    assert find_voice(VoiceSpec("demo")).folder.name == "demo"


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


@pytest.mark.parametrize(
    ("licence", "brief"),
    [
        (CPML, f"{CPML}, {published.LICENCE_URL}"),
        ("MIT; learned from what two voices said", "MIT, https://spdx.org/licenses/MIT.html"),
        ("free; learned from Ana", "free"),
        ("", ""),
    ],
)
def test_a_licence_in_brief_is_its_name_and_where_its_terms_are(licence, brief):
    assert licence_in_brief(licence) == brief
