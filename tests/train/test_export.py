"""A voice exported from a checkpoint: trained weights from the checkpoint, the rest from the
base."""

import errno
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import soundfile
import torch

from machine.errors import SotaqueError
from machine.storage.checksums import sha256_of
from machine.storage.files import DiskFull
from tests.models import tiny_base
from train.__main__ import main
from train.checkpointing.checkpoints import Checkpoints
from train.checkpointing.fingerprint import Fingerprint
from train.export import export
from xtts.model.config import ConfigError, ModelConfig
from xtts.model.loading import read_tensors
from xtts.text.pronunciations import PRONUNCIATIONS_FILE
from xtts.voices import bundle, learned_decoder
from xtts.voices.base_models import BundleError
from xtts.voices.evaluation_file import Evaluation, Verdict, write_evaluation
from xtts.voices.learned_decoder import LearnedDecoder
from xtts.voices.loading import load_voice
from xtts.voices.run_folder import RunFolder
from xtts.voices.voice_files import VoiceFiles, VoiceSpec, find_voice


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tiny base in the working folder of the commands, which has no `.env`."""
    monkeypatch.chdir(tmp_path)
    return tiny_base(tmp_path / "base")


@pytest.fixture
def run(checkpoint: Path) -> RunFolder:
    return RunFolder(checkpoint.parent.parent)


@pytest.fixture
def checkpoint(base: Path, tmp_path: Path) -> Path:
    return perturbed(base, tmp_path / "output")


def perturbed(base: Path, output_dir: Path, name: str | None = None, data_sha256: str = "d" * 64) -> Path:
    """A checkpoint with each trained value of `base` plus 0.01, and its epoch's reference."""
    config = ModelConfig.read(base)
    fingerprint = Fingerprint.of(base, data_sha256, config.gpt, output_dir / "cache")
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
    return Checkpoints(run, 3, provenance=provenance).save_epoch(7, 70, state, None, {}).checkpoint


def files_of(checkpoint: Path, base: Path, reference: Path | None = None) -> VoiceFiles:
    """A checkpoint's files, with `reference` instead of its epoch's recording."""
    spec = VoiceSpec(str(checkpoint), base=str(base))
    return replace(find_voice(spec), reference=reference)


def exported(checkpoint: Path, base: Path, to: Path) -> Path:
    export(files_of(checkpoint, base), to)
    return to


def test_learned_values_are_the_checkpoints_and_frozen_ones_the_bases(base, checkpoint, tmp_path):
    found = read_tensors(exported(checkpoint, base, tmp_path / "voice") / "model.pth")
    before = read_tensors(base / "model.pth")
    assert found.keys() == before.keys()
    for name, tensor in before.items():
        expected = tensor + 0.01 if name.startswith("gpt.") else tensor
        assert torch.equal(found[name], expected), name


def test_the_verb_writes_a_voice_that_speaks_and_says_how_much_is_written(
    checkpoint, tmp_path, caplog, monkeypatch
):
    monkeypatch.setattr("train.progress._TELL_EVERY_SECONDS", 0.0)
    to = tmp_path / "voices" / "mine"
    assert main(["export", "--checkpoint", str(checkpoint), "--to", str(to)]) == 0
    assert "Coqui's own classes cannot load it" in caplog.text
    told = [line for line in caplog.messages if line.startswith("Writing model.pth: ")]
    assert told[-1].endswith("MB, left 0:00:00")
    assert {path.name for path in to.iterdir()} == {
        "bundle.json",
        "config.json",
        "model.pth",
        "reference.wav",
        "vocab.json",
    }
    opened = load_voice(VoiceSpec(str(to)))
    same = load_voice(VoiceSpec(str(checkpoint)))
    assert torch.equal(opened.model.gpt.text_head.weight, same.model.gpt.text_head.weight)
    assert opened.files.reference.read_bytes() == same.files.reference.read_bytes()


def learned(run: RunFolder, base: Path, *weights: object) -> dict[str, torch.Tensor]:
    """A run's decoder for some weights: the base's, slightly changed."""
    tensors = {
        name: tensor.float() + 0.01
        for name, tensor in read_tensors(base / "model.pth").items()
        if name.startswith("hifigan_decoder.waveform_decoder.")
    }
    file = learned_decoder.write_tensors(run.best_decoder, tensors)
    learned_decoder.write(run.best_decoder, LearnedDecoder(*weights, 2.0, 1.9, 20, 250, file=file))
    return tensors


def test_a_learned_decoder_goes_with_its_weights(base, checkpoint, run, tmp_path):
    sha256 = run.verified(7).sha256
    plain = load_voice(VoiceSpec(str(checkpoint)))
    tensors = learned(run, base, 7, 1.0, sha256)
    export(replace(files_of(checkpoint, base), decoder=run.best_decoder), to := tmp_path / "voice")
    state = read_tensors(to / "model.pth")
    assert bundle.verify(to)
    assert all(torch.equal(state[name], tensor) for name, tensor in tensors.items())
    voice, opened = load_voice(VoiceSpec(str(to))), load_voice(VoiceSpec(str(checkpoint)))
    vocoders = (voice.model.vocoder, opened.decoder, plain.model.vocoder)
    same, own, of_base = (list(vocoder.parameters()) for vocoder in vocoders)
    assert all(map(torch.equal, same, own)) and not all(map(torch.equal, own, of_base))
    # An uploaded recording speaks with the base's decoder, which all voices of the base share.
    assert all(map(torch.equal, opened.model.vocoder.parameters(), of_base))
    learned(run, base, 7, 0.5, sha256)
    assert load_voice(VoiceSpec(str(checkpoint)), others={"run": opened}).decoder is None


def test_the_bundle_says_what_it_was_made_from(base, checkpoint, tmp_path):
    to = exported(checkpoint, base, tmp_path / "voice")
    found = bundle.read(to)
    assert bundle.verify(to)
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
    # An old checkpoint that names no normaliser uses Coqui's, then the only one.
    assert found["sotaque"] == config["sotaque"] | {"normalizer": "coqui"}
    assert found["model_args"]["decoder_input_dim"] == 64
    assert found["model_args"]["gpt_max_audio_tokens"] == 605
    assert ModelConfig.read(to) == replace(ModelConfig.read(base), normalizer="coqui")


def test_speakers_come_along_and_mel_statistics_go_into_the_weights(base, checkpoint, tmp_path):
    files = files_of(checkpoint, base)
    torch.save({"Ana": {}}, base / "speakers_xtts.pth")
    found = torch.load(base / "model.pth", weights_only=True)
    del found["model"]["mel_stats"]
    torch.save(found, base / "model.pth")
    export(files, to := tmp_path / "voice")
    assert (to / "speakers_xtts.pth").read_bytes() == (base / "speakers_xtts.pth").read_bytes()
    stats = torch.load(base / "mel_stats.pth", weights_only=True)
    assert torch.equal(read_tensors(to / "model.pth")["mel_stats"], stats)


def test_what_coquis_trainer_left_in_the_base_stays_behind(base, checkpoint, tmp_path):
    files = files_of(checkpoint, base)
    own = torch.load(base / "model.pth", weights_only=True)["model"]
    left = {"dvae.encoder.0.0.weight": torch.zeros(2), "torch_mel_spectrogram_dvae.x": torch.ones(1)}
    prefixed = {f"xtts.{name}": tensor for name, tensor in own.items()}
    torch.save({"model": prefixed | left}, base / "model.pth")
    export(files, to := tmp_path / "voice")
    assert read_tensors(to / "model.pth").keys() == own.keys()


def test_a_half_precision_base_stays_half_where_it_is_frozen(base, tmp_path):
    whole = torch.load(base / "model.pth", weights_only=True)["model"]
    halved = {n: one.half() if one.is_floating_point() else one for n, one in whole.items()}
    torch.save({"model": halved}, base / "model.pth")
    to = exported(perturbed(base, tmp_path / "output"), base, tmp_path / "voice")
    tensors = read_tensors(to / "model.pth")
    decoder = "hifigan_decoder.waveform_decoder.conv_pre.weight"
    assert tensors[decoder].dtype == torch.float16
    assert tensors["gpt.text_head.weight"].dtype == torch.float32
    load_voice(VoiceSpec(str(to)))


def test_a_reference_in_another_format_becomes_a_wav(base, checkpoint, tmp_path):
    tone = torch.sin(torch.arange(22_050) / 20).numpy() * 0.5
    soundfile.write(tmp_path / "tone.flac", tone, 22_050)
    export(files_of(checkpoint, base, tmp_path / "tone.flac"), to := tmp_path / "voice")
    found, rate = soundfile.read(to / "reference.wav")
    assert rate == 22_050 and abs(found - tone).max() < 1e-3 and bundle.verify(to)


# The best weights


def judged(run: RunFolder, best: Verdict) -> None:
    """Writes an evaluation.json with only a verdict."""
    found = Evaluation("", "en", {}, "", {}, {}, {}, [], verdict=best)
    write_evaluation(run.evaluation_file, found)


def export_best(run: RunFolder, to: Path, **settings: object) -> int:
    """`train export` of the run's best weights."""
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
    return main(["export", "--output-dir", str(run.folder), "--to", str(to), *flags])


@pytest.mark.parametrize("onnx", [False, True])
def test_where_the_base_is_best_it_is_exported_as_the_person(base, checkpoint, run, tmp_path, onnx):
    to = tmp_path / "voice"
    judged(run, Verdict("base", 0, 0.0, "The base is the best.", "", False, ""))
    tensors = learned(run, base, 0, 0.0, "")
    (run.folder / PRONUNCIATIONS_FILE).write_text("word = said\n")
    # The export needs the run's provenance, not the checkpoint.
    checkpoint.unlink()
    assert export_best(run, to, **{"onnx": "int8"} if onnx else {}) == 0
    if onnx:
        assert (to / "onnx.json").is_file()
        return
    recording = (run.samples / "epoch_7_reference.wav").read_bytes()
    assert (to / "reference.wav").read_bytes() == recording and bundle.verify(to)
    assert (bundle.read(to).epoch, bundle.read(to).data_sha256) == (0, "d" * 64)
    assert (to / PRONUNCIATIONS_FILE).is_file()
    found, expected = read_tensors(to / "model.pth"), read_tensors(base / "model.pth") | tensors
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())


def test_where_the_best_epoch_is_gone_another_one_is_exported_and_that_is_said(run, tmp_path, caplog):
    judged(run, Verdict("blend", 7, 0.5, "The blend.", "", False, run.verified(7).sha256))
    assert export_best(run, tmp_path / "voice") == 0
    assert "checkpoint_epoch_7.pt is used instead" in caplog.text
    assert "best.manifest.json is missing" in caplog.text
    assert bundle.read(tmp_path / "voice").epoch == 7


def test_a_run_without_a_recording_is_exported_and_says_what_to_do(base, tmp_path, caplog):
    run = RunFolder(tmp_path / "output")
    perturbed(base, run.folder)
    shutil.rmtree(run.samples)
    assert export_best(run, tmp_path / "voice") == 0
    assert "holds no recording of the person" in caplog.text and "train sample" in caplog.text
    assert not (tmp_path / "voice" / "reference.wav").exists()
    assert bundle.verify(tmp_path / "voice")


# The target folder


@pytest.mark.parametrize("onnx", [[], pytest.param(["--onnx", "int8"], marks=pytest.mark.slow)])
def test_an_earlier_export_is_replaced_whole_and_only_where_that_is_said(checkpoint, tmp_path, capsys, onnx):
    to = tmp_path / "voice"
    to.mkdir()  # an empty folder is not an obstacle
    command = ["export", "--checkpoint", str(checkpoint), "--to", str(to), *onnx]
    assert main(command) == 0
    before = {path.name: path.stat().st_mtime_ns for path in to.iterdir()}
    assert main(command) == 2
    told = capsys.readouterr().err
    assert "already holds an exported voice" in told and "add --force" in told
    assert {path.name: path.stat().st_mtime_ns for path in to.iterdir()} == before
    assert main([*command, "--force"]) == 0
    after = {path.name: path.stat().st_mtime_ns for path in to.iterdir()}
    assert after.keys() == before.keys() and after != before and (onnx or bundle.verify(to))
    assert not list(tmp_path.glob("*sotaque-part*"))


def test_pronunciations_that_were_edited_in_an_export_stay_when_it_is_made_again(base, checkpoint, tmp_path):
    (checkpoint.parent.parent / PRONUNCIATIONS_FILE).write_text("Ana = Anna\n")
    to = exported(checkpoint, base, tmp_path / "voice")
    assert (to / PRONUNCIATIONS_FILE).read_text() == "Ana = Anna\n"
    (to / PRONUNCIATIONS_FILE).write_text("Ana = Ah nah\n")
    exported(checkpoint, base, to)
    assert (to / PRONUNCIATIONS_FILE).read_text() == "Ana = Ah nah\n"


def test_a_failed_export_leaves_what_a_killed_one_was_replacing(base, checkpoint, tmp_path, monkeypatch):
    """It may be the only copy of the voice. What the killed one had begun to write goes."""
    only, begun = (tmp_path / f".voice.123.{name}sotaque-part" for name in ("old.", ""))
    for folder in (only, begun):
        folder.mkdir()
        (folder / "model.pth").write_bytes(b"a voice")

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", fail)
        with pytest.raises(SotaqueError):
            exported(checkpoint, base, tmp_path / "voice")
    assert (only / "model.pth").read_bytes() == b"a voice" and not begun.exists()
    exported(checkpoint, base, tmp_path / "voice")
    assert not list(tmp_path.glob(".voice*"))


@pytest.mark.parametrize("earlier", [False, True])
def test_a_folder_with_other_things_in_it_is_refused(base, checkpoint, tmp_path, earlier):
    to = tmp_path / "voice"
    if earlier:
        exported(checkpoint, base, to)
    to.mkdir(exist_ok=True)
    (to / "thesis.txt").write_text("mine")
    before = sorted(to.iterdir())
    with pytest.raises(SotaqueError, match=r"holds thesis\.txt, which no export wrote"):
        exported(checkpoint, base, to)
    assert sorted(to.iterdir()) == before


def test_a_file_is_no_place(base, checkpoint, tmp_path):
    (tmp_path / "voice").touch()
    with pytest.raises(SotaqueError, match="is a file"):
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
    assert bundle.verify(to)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["base", "output", "voice"]


@pytest.mark.parametrize("operation", ["mkdir", "rename"])
def test_a_disk_without_room_for_a_folder_or_name_is_full(base, checkpoint, tmp_path, monkeypatch, operation):
    to = exported(checkpoint, base, tmp_path / "voice")
    real = getattr(Path, operation)

    def full(self, *given, **named):
        if self.name.endswith(".sotaque-part") and not self.name.endswith(".old.sotaque-part"):
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(self, *given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(Path, operation, full)
        with pytest.raises(DiskFull, match="bytes needed"):
            exported(checkpoint, base, to)
    assert bundle.verify(to)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["base", "output", "voice"]


# Files that do not match


def test_another_base_is_refused(checkpoint, tmp_path, capsys):
    other = tiny_base(tmp_path / "other", seed=5)
    command = ["export", "--checkpoint", str(checkpoint), "--to", str(tmp_path / "voice")]
    assert main([*command, "--base", str(other)]) == 2
    assert "Name the folder of the right base with --base" in capsys.readouterr().err
    assert not (tmp_path / "voice").exists()


def test_a_base_that_has_moved_is_found_with_base(base, checkpoint, tmp_path):
    base.rename(tmp_path / "moved")
    command = ["export", "--checkpoint", str(checkpoint), "--to", str(tmp_path / "voice")]
    assert main(command) == 2
    assert main([*command, "--base", str(tmp_path / "moved")]) == 0
    assert bundle.verify(tmp_path / "voice")
    with pytest.raises(BundleError, match=r"model\.pth is missing.*Use --base"):
        load_voice(VoiceSpec(str(checkpoint)))
    load_voice(VoiceSpec(str(checkpoint), base=str(tmp_path / "moved")))


def test_sizes_that_differ_are_named(base, checkpoint, tmp_path):
    found = files_of(checkpoint, base)
    wider = tiny_base(tmp_path / "wider", layers=1)
    with pytest.raises(ConfigError, match=r"gpt\.gpt\.h\.1.*missing in the base"):
        export(replace(found, folder=wider), tmp_path / "voice")
