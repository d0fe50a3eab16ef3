"""Base folders that are refused with reasons, and voices that are opened whole or not at all."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from machine.storage.atomic import Written, sha256_of
from tests.models import tiny_base
from tests.published import publish_folder
from xtts.hub import bundle
from xtts.hub.bundle import Bundle, BundleError, VoiceSpec, check_base, locate_base
from xtts.model.config import ConfigError
from xtts.workers.voice_registry import load_voice

ALL = ("config.json", "vocab.json", "model.pth", "dvae.pth", "mel_stats.pth")


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A base folder that a test may break."""
    return tiny_base(tmp_path / "base")


@pytest.fixture
def voice(base: Path) -> Path:
    """The same folder as a voice."""
    files = {
        name: Written(sha256_of(base / name), (base / name).stat().st_size) for name in ALL[:3]
    }
    bundle.write(
        base,
        Bundle(
            files=files,
            base={"name": "demo", "sha256": "b" * 64},
            data_sha256="d" * 64,
            epoch=3,
            licence="free",
            made_at="2026-11-20T20:00:00+00:00",
            speaks_in_coqui=False,
        ),
    )
    return base


def change_tensor(path: Path, name: str, value: torch.Tensor | None) -> None:
    found = torch.load(path, weights_only=True)
    tensors = found.get("model", found)
    tensors.pop(name)
    if value is not None:
        tensors[name] = value
    torch.save(found, path)


# Where the base is


def test_demo_and_folders_are_found(base):
    assert (locate_base("demo") / "model.pth").is_file()
    assert locate_base(str(base)) == base


def test_the_demo_is_a_complete_base():
    check_base(locate_base("demo"))


def test_a_folder_that_is_none_is_named():
    with pytest.raises(BundleError, match="BASE_MODEL=nowhere is no folder"):
        locate_base("nowhere")


def test_published_weights_are_not_loaded_before_their_licence_is_agreed_to(base, monkeypatch):
    publish_folder(monkeypatch, base)
    with pytest.raises(BundleError, match="COQUI_TOS_AGREED=1 if you agree"):
        locate_base(str(base))
    assert locate_base(str(base), tos_agreed=True) == base


# What it lacks


def test_a_whole_base_passes(base):
    check_base(base)


def test_weights_in_the_format_of_an_old_torch_pass_too(base):
    for name in ("model.pth", "dvae.pth"):
        found = torch.load(base / name, weights_only=True)
        torch.save(found, base / name, _use_new_zipfile_serialization=False)
    check_base(base)
    assert load_voice(VoiceSpec(str(base))).model.gpt is not None


@pytest.mark.parametrize("name", ALL[:4])
def test_each_missing_file_is_named_with_where_it_comes_from(base, name):
    (base / name).unlink()
    with pytest.raises(BundleError, match=rf"{name}: It is published (with|beside) XTTS-v2"):
        check_base(base)


def test_all_missing_files_are_told_at_once(base):
    for name in ("dvae.pth", "vocab.json"):
        (base / name).unlink()
    with pytest.raises(BundleError, match=r"(?s)vocab\.json.*dvae\.pth"):
        check_base(base)


def test_mel_statistics_may_be_in_the_weights_or_in_their_own_file(base):
    (base / "mel_stats.pth").unlink()
    check_base(base)
    change_tensor(base / "model.pth", "mel_stats", None)
    with pytest.raises(BundleError, match=r"mel_stats\.pth: It is published beside"):
        check_base(base)


@pytest.mark.parametrize("name", ["config.json", "vocab.json"])
def test_broken_json_is_a_sentence(base, name):
    (base / name).write_text("{")
    with pytest.raises(ConfigError, match=rf"{name} cannot be read as JSON"):
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


@pytest.mark.parametrize("name", ["model.pth", "dvae.pth"])
def test_files_that_are_no_weights_are_named(base, name):
    (base / name).write_bytes(b"<html>404</html>")
    with pytest.raises(ConfigError, match=name):
        check_base(base)


# Voices


def test_what_is_written_is_read(voice):
    found = bundle.read(voice)
    assert (found.kind, found.epoch, found.licence) == ("voice", 3, "free")
    assert found.files["model.pth"].sha256 == sha256_of(voice / "model.pth")
    assert bundle.verify(voice) is None


@pytest.mark.parametrize("name", ALL[:3])
def test_a_changed_file_is_named_and_the_voice_is_not_opened(voice, name):
    content = bytearray((voice / name).read_bytes())
    content[len(content) // 2] ^= 1
    (voice / name).write_bytes(content)
    assert name in bundle.verify(voice)
    with pytest.raises(BundleError, match=name):
        load_voice(VoiceSpec(str(voice)))


def test_a_bundle_that_names_no_weights_is_not_whole(voice):
    found = bundle.read(voice)
    files = {name: file for name, file in found.files.items() if name != "model.pth"}
    bundle.write(voice, replace(found, files=files))
    assert "does not name model.pth" in bundle.verify(voice)


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"files": 3}'])
def test_a_garbled_bundle_is_a_sentence(voice, content):
    (voice / "bundle.json").write_text(content)
    with pytest.raises(BundleError, match=r"bundle\.json is damaged"):
        bundle.read(voice)


def test_a_newer_bundle_is_a_sentence(voice):
    found = json.loads((voice / "bundle.json").read_text())
    (voice / "bundle.json").write_text(json.dumps({**found, "schema": 2}))
    with pytest.raises(BundleError, match="schema 2"):
        bundle.read(voice)


def test_a_voice_is_opened_with_its_reference(voice):
    assert load_voice(VoiceSpec(str(voice))).reference is None
    shutil.copy(voice / "vocab.json", voice / "reference.wav")
    opened = load_voice(VoiceSpec(str(voice)))
    assert opened.reference == voice / "reference.wav"
    assert opened.model.config.weights == "random"


def test_a_voice_that_is_not_there_is_named():
    with pytest.raises(BundleError, match="There is no voice at nowhere"):
        load_voice(VoiceSpec("nowhere"))
