"""A checkpoint becomes a voice: what learned is the checkpoint's, all else is the base's."""

import errno
import json
import logging
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import soundfile
import torch

from machine.storage.atomic import DiskFull, sha256_of
from tests.models import tiny_base
from train.__main__ import main
from train.checkpointing.checkpoints import Checkpoints
from train.checkpointing.fingerprint import Fingerprint
from train.export import ExportError, export
from xtts.hub import bundle, learned_speaker
from xtts.hub.base_models import BundleError
from xtts.hub.learned_speaker import LearnedSpeaker
from xtts.hub.run_folder import RunFolder
from xtts.model.config import ConfigError, ModelConfig
from xtts.model.loading import read_tensors
from xtts.workers.voice_registry import VoiceSpec, load_voice


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tiny_base(tmp_path / "base")


@pytest.fixture
def checkpoint(base: Path, tmp_path: Path) -> Path:
    return perturbed(base, tmp_path / "output")


def perturbed(base: Path, output_dir: Path, name: str | None = None) -> Path:
    """A checkpoint of every learned value of `base` plus 0.01, with its epoch's reference."""
    config = ModelConfig.read(base)
    fingerprint = Fingerprint.of(base, "d" * 64, config.gpt, output_dir / "cache")
    provenance = {
        "base": {"name": name or str(base), "sha256": fingerprint.base_sha256},
        "fingerprint": fingerprint.as_dict(),
    }
    tensors = read_tensors(base / "model.pth").items()
    state = {name: tensor.float() + 0.01 for name, tensor in tensors if name.startswith("gpt.")}
    run = RunFolder(output_dir)
    run.samples.mkdir(parents=True)
    tone = torch.sin(torch.arange(22_050) / 20).numpy() * 0.5
    soundfile.write(run.samples / "epoch_7_reference.wav", tone, 22_050, subtype="FLOAT")
    return Checkpoints(run, keep=3).save_epoch(7, 70, state, None, {}, provenance).path


def exported(checkpoint: Path, base: Path, to: Path) -> Path:
    return export(checkpoint, to, base, ModelConfig.read(base), None).folder


def test_learned_values_are_the_checkpoints_and_frozen_ones_the_bases(base, checkpoint, tmp_path):
    found = read_tensors(exported(checkpoint, base, tmp_path / "voice") / "model.pth")
    before = read_tensors(base / "model.pth")
    assert found.keys() == before.keys()
    for name, tensor in before.items():
        expected = tensor + 0.01 if name.startswith("gpt.") else tensor
        assert torch.equal(found[name], expected), name


def test_the_verb_writes_a_voice_that_speaks(base, checkpoint, tmp_path, caplog, monkeypatch):
    monkeypatch.chdir(tmp_path)
    caplog.set_level("INFO")
    to = tmp_path / "voices" / "mine"
    assert main(["export", "--checkpoint", str(checkpoint), "--to", str(to)]) == 0
    assert "Coqui's own classes cannot load it" in caplog.text
    assert sorted(path.name for path in to.iterdir()) == [
        "bundle.json", "config.json", "model.pth", "reference.wav", "vocab.json",
    ]  # fmt: skip
    opened = load_voice(VoiceSpec(str(to)))
    same = load_voice(VoiceSpec(str(checkpoint)))
    assert torch.equal(opened.model.gpt.text_head.weight, same.model.gpt.text_head.weight)
    assert opened.reference.read_bytes() == same.reference.read_bytes()


def test_an_export_says_how_much_is_written_and_what_is_left(
    base, checkpoint, tmp_path, caplog, monkeypatch
):
    monkeypatch.setattr("train.progress._TELL_EVERY_SECONDS", 0.0)
    with caplog.at_level(logging.INFO, "train"):
        exported(checkpoint, base, tmp_path / "voice")
    told = [line for line in caplog.messages if line.startswith("Writing model.pth: ")]
    assert told and told[-1].endswith("MB, left 0:00:00")


def test_a_learned_speaker_embedding_goes_with_its_weights(base, checkpoint, tmp_path):
    run = RunFolder(checkpoint.parent.parent)
    sha256 = run.verified(7).sha256
    numbers = [number / 512 for number in range(512)]
    learned = LearnedSpeaker(7, 1.0, sha256, numbers, 2.0, 1.9, 20)
    learned_speaker.write(run.best_speaker, learned)
    reference = run.samples / "epoch_7_reference.wav"
    voice = export(checkpoint, tmp_path / "voice", base, ModelConfig.read(base), reference).folder
    assert learned_speaker.NAME in bundle.read(voice).files and bundle.verify(voice) is None
    for opened in (load_voice(VoiceSpec(str(voice))), load_voice(VoiceSpec(str(checkpoint)))):
        assert torch.equal(opened.own.speaker, learned.tensor())
    learned_speaker.write(run.best_speaker, replace(learned, share=0.5))
    assert load_voice(VoiceSpec(str(checkpoint))).speaker is None


def test_the_bundle_says_what_it_was_made_from(base, checkpoint, tmp_path):
    to = exported(checkpoint, base, tmp_path / "voice")
    found = bundle.read(to)
    assert bundle.verify(to) is None
    assert found.base == {"name": str(base), "sha256": sha256_of(base / "model.pth")}
    assert (found.data_sha256, found.epoch) == ("d" * 64, 7)
    assert found.licence == "Random weights, free to use"
    assert not found.speaks_in_coqui
    assert found.files.keys() == {path.name for path in to.iterdir()} - {"bundle.json"}


def test_the_config_says_every_size_and_keeps_the_rest(base, checkpoint, tmp_path):
    config = json.loads((base / "config.json").read_text())
    config["audio"] = {"sample_rate": 22050}
    del config["model_args"]["decoder_input_dim"]
    (base / "config.json").write_text(json.dumps(config))
    to = exported(checkpoint, base, tmp_path / "voice")
    found = json.loads((to / "config.json").read_text())
    assert found["audio"] == {"sample_rate": 22050}
    # The checkpoint names no normaliser: it is of a time when there was Coqui's only.
    assert found["sotaque"] == config["sotaque"] | {"normalizer": "coqui"}
    assert found["model_args"]["decoder_input_dim"] == 64
    assert found["model_args"]["gpt_max_audio_tokens"] == 605
    assert ModelConfig.read(to) == replace(ModelConfig.read(base), normalizer="coqui")


def test_speakers_come_along_and_mel_statistics_go_into_the_weights(base, checkpoint, tmp_path):
    torch.save({"Ana": {}}, base / "speakers_xtts.pth")
    found = torch.load(base / "model.pth", weights_only=True)
    del found["model"]["mel_stats"]
    torch.save(found, base / "model.pth")
    to = exported(checkpoint, base, tmp_path / "voice")
    assert (to / "speakers_xtts.pth").read_bytes() == (base / "speakers_xtts.pth").read_bytes()
    stats = torch.load(base / "mel_stats.pth", weights_only=True)
    assert torch.equal(read_tensors(to / "model.pth")["mel_stats"], stats)


def test_what_coquis_trainer_left_in_the_base_stays_behind(base, checkpoint, tmp_path):
    found = torch.load(base / "model.pth", weights_only=True)
    tensors = {f"xtts.{name}": tensor for name, tensor in found["model"].items()}
    extra = {
        "dvae.encoder.0.0.weight": torch.zeros(2),
        "torch_mel_spectrogram_dvae.x": torch.ones(1),
    }
    torch.save({"model": {**tensors, **extra}}, base / "model.pth")
    to = exported(checkpoint, base, tmp_path / "voice")
    assert read_tensors(to / "model.pth").keys() == found["model"].keys()


def test_a_half_precision_base_stays_half_where_it_is_frozen(base, tmp_path):
    found = torch.load(base / "model.pth", weights_only=True)
    halved = {
        name: tensor.half() if tensor.is_floating_point() else tensor
        for name, tensor in found["model"].items()
    }
    torch.save({"model": halved}, base / "model.pth")
    checkpoint = perturbed(base, tmp_path / "output")
    to = exported(checkpoint, base, tmp_path / "voice")
    tensors = read_tensors(to / "model.pth")
    decoder = "hifigan_decoder.waveform_decoder.conv_pre.weight"
    assert tensors[decoder].dtype == torch.float16
    assert tensors["gpt.text_head.weight"].dtype == torch.float32
    load_voice(VoiceSpec(str(to)))


def test_a_reference_in_another_format_becomes_a_wav(base, checkpoint, tmp_path):
    tone = torch.sin(torch.arange(22_050) / 20).numpy() * 0.5
    soundfile.write(tmp_path / "tone.flac", tone, 22_050)
    config = ModelConfig.read(base)
    to = export(checkpoint, tmp_path / "voice", base, config, tmp_path / "tone.flac").folder
    found, rate = soundfile.read(to / "reference.wav")
    assert rate == 22_050
    assert abs(found - tone).max() < 1e-3
    assert bundle.verify(to) is None


# Where it goes


@pytest.mark.parametrize("earlier", ["nothing", "empty", "export"])
def test_an_earlier_export_is_replaced_whole(base, checkpoint, tmp_path, earlier):
    to = tmp_path / "voice"
    if earlier != "nothing":
        to.mkdir()
    if earlier == "export":
        exported(checkpoint, base, to)
        found = bundle.read(to)
        (to / "model.pth").write_bytes(b"old")
        assert found.epoch == 7
    exported(checkpoint, base, to)
    assert bundle.verify(to) is None
    assert not [path.name for path in tmp_path.iterdir() if "sotaque-part" in path.name]


@pytest.mark.parametrize("onnx", [[], ["--onnx", "int8"]])
def test_an_earlier_export_is_replaced_only_where_that_is_said(
    base, checkpoint, tmp_path, monkeypatch, capsys, onnx
):
    monkeypatch.chdir(tmp_path)
    to = tmp_path / "voice"
    command = ["export", "--checkpoint", str(checkpoint), "--to", str(to), *onnx]
    assert main(command) == 0
    before = {path.name: path.stat().st_mtime_ns for path in to.iterdir()}
    assert main(command) == 2
    assert "holds an exported voice already" in (told := capsys.readouterr().err)
    assert "add --force" in told
    assert {path.name: path.stat().st_mtime_ns for path in to.iterdir()} == before
    assert main([*command, "--force"]) == 0
    assert {path.name: path.stat().st_mtime_ns for path in to.iterdir()} != before


def test_a_folder_with_other_things_in_it_is_refused(base, checkpoint, tmp_path):
    to = tmp_path / "voice"
    to.mkdir()
    (to / "thesis.txt").write_text("mine")
    with pytest.raises(ExportError, match=r"holds thesis\.txt, which no export wrote"):
        exported(checkpoint, base, to)
    assert [path.name for path in to.iterdir()] == ["thesis.txt"]
    shutil.rmtree(to)
    exported(checkpoint, base, to)
    (to / "thesis.txt").write_text("mine")
    with pytest.raises(ExportError, match=r"thesis\.txt"):
        exported(checkpoint, base, to)


def test_a_file_is_no_place(base, checkpoint, tmp_path):
    (tmp_path / "voice").touch()
    with pytest.raises(ExportError, match="is a file"):
        exported(checkpoint, base, tmp_path / "voice")


def test_a_full_disk_leaves_the_earlier_export(base, checkpoint, tmp_path, monkeypatch):
    to = exported(checkpoint, base, tmp_path / "voice")
    real, left = os.write, [1_000_000]

    def write(descriptor, data):
        if not left[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = real(descriptor, data[: left[0]])
        left[0] -= written
        return written

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write)
        with pytest.raises(DiskFull, match="bytes needed"):
            exported(checkpoint, base, to)
    assert bundle.verify(to) is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["base", "output", "voice"]


# What does not belong together


def test_another_base_is_refused(checkpoint, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    other = tiny_base(tmp_path / "other", seed=5)
    command = ["export", "--checkpoint", str(checkpoint), "--to", str(tmp_path / "voice")]
    assert main([*command, "--base", str(other)]) == 2
    assert "Name the folder of its own base with --base" in capsys.readouterr().err
    assert not (tmp_path / "voice").exists()


def test_a_base_that_has_moved_is_found_with_base(base, checkpoint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    base.rename(tmp_path / "moved")
    command = ["export", "--checkpoint", str(checkpoint), "--to", str(tmp_path / "voice")]
    assert main(command) == 2
    assert main([*command, "--base", str(tmp_path / "moved")]) == 0
    assert bundle.verify(tmp_path / "voice") is None
    with pytest.raises(BundleError, match="is no folder"):
        load_voice(VoiceSpec(str(checkpoint)))
    load_voice(VoiceSpec(str(checkpoint), base=str(tmp_path / "moved")))


def test_sizes_that_differ_are_named(checkpoint, tmp_path):
    wider = tiny_base(tmp_path / "wider", layers=1)
    with pytest.raises(ConfigError, match=r"gpt\.gpt\.h\.1.*missing in the base"):
        exported(checkpoint, wider, tmp_path / "voice")
