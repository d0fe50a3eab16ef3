"""LoRA's adapter as a separate file: saved with each epoch, exported as a voice of its base."""

import shutil
from dataclasses import replace

import pytest
import torch

from tests.train.test_run import Workshop
from train.__main__ import main
from train.checkpointing.checkpoints import Checkpoints, remove
from train.evaluation.conclusion import keep_best_blend
from train.export import export_adapter
from xtts.model.loading import read_tensors
from xtts.voices import adapter_file, bundle
from xtts.voices.base_models import DEMO
from xtts.voices.evaluation_file import Verdict
from xtts.voices.run_folder import RunFolder
from xtts.voices.voice_files import VoiceSpec, find_voice

LORA = {"LORA_RANK": "4", "LEARNING_RATE": "1e-2"}


@pytest.fixture(scope="module")
def run(workshop: Workshop) -> RunFolder:
    run = workshop.run("adapted", 2, **LORA)
    run.samples.mkdir(exist_ok=True)
    shutil.copy(DEMO / "reference.wav", run.samples / "epoch_2_reference.wav")
    return run


def merged(workshop: Workshop, path) -> dict[str, torch.Tensor]:
    """The base merged with a file's adapter, in a checkpoint's layout."""
    header, tensors = adapter_file.read(path)
    state = {
        name: tensor.float()
        for name, tensor in read_tensors(workshop.base / "model.pth").items()
        if name.startswith("gpt.")
    }
    for name, a in tensors.items():
        if ".lora_A." in name:
            b, matrix = tensors[name.replace("lora_A", "lora_B")], name.replace("lora_A.", "")
            state[matrix] = state[matrix] + (header.scale * (b @ a)).t()
    return state


def near(one, other) -> bool:
    return all(torch.allclose(tensor, other[name], atol=1e-6) for name, tensor in one.items())


def test_each_epoch_keeps_its_adapter_which_belongs_to_it(workshop, run):
    for epoch in (1, 2):
        saved = run.verified(epoch)
        assert run.adapter_path(epoch).name in saved.manifest.files
        header, tensors = adapter_file.read(run.adapter_path(epoch))
        assert (header.rank, header.alpha, header.share) == (4, 8, 1.0)
        assert header.base == saved.manifest.base
        assert header.matrices == ("c_attn", "c_fc", "c_proj")
        assert all(tensor.dtype == torch.float32 for tensor in tensors.values())
        whole = torch.load(saved.checkpoint, weights_only=True)["model"]
        assert near(merged(workshop, run.adapter_path(epoch)), whole)
        assert run.adapter_path(epoch).stat().st_size < saved.checkpoint.stat().st_size / 4


@pytest.mark.slow
def test_a_damaged_adapter_is_no_whole_epoch_and_a_pruned_one_goes_along(workshop):
    run = workshop.run("pruned", 3, **LORA, KEEP_CHECKPOINTS="1")
    kept = {run.adapter_path(epoch) for epoch in run.epochs()}
    assert set(run.checkpoints.glob("adapter_*")) == kept and len(kept) < 3
    path = run.adapter_path(3)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert path.name in run.verify(3)


def test_without_lora_there_is_none_and_the_export_says_so(workshop, capfd, tmp_path):
    run = workshop.run("plain", 1)
    assert not list(run.checkpoints.glob("adapter_*"))
    words = ["export", "--adapter", "--checkpoint", str(run.checkpoint_path(1)), "--to"]
    assert main([*words, str(tmp_path / "voice")]) == 2
    told = capfd.readouterr().err
    assert "checkpoint_epoch_1.pt has no adapter" in told and "LORA_RANK" in told
    assert not (tmp_path / "voice").exists()


def test_the_verb_writes_the_adapter_and_the_recording(run, tmp_path, caplog, capfd):
    to = tmp_path / "anna"
    words = ["export", "--adapter", "--to", str(to), "--output-dir", str(run.folder)]
    words += ["--checkpoint", str(run.checkpoint_path(2))]
    assert main(words) == 0
    assert "an adapter of" in caplog.text and "rank 4" in caplog.text
    assert {path.name for path in to.iterdir()} == {"adapter.safetensors", "bundle.json", "reference.wav"}
    told = bundle.verify(to)
    assert (told.kind, told.epoch) == (bundle.ADAPTER, 2)
    assert told.base == run.verified(2).manifest.base
    assert (to / adapter_file.FILE_NAME).read_bytes() == run.adapter_path(2).read_bytes()
    assert (to / "reference.wav").read_bytes() == (run.samples / "epoch_2_reference.wav").read_bytes()
    assert main(words) == 2 and "--force" in capfd.readouterr().err
    assert main([*words, "--force"]) == 0
    assert main([*words, "--force", "--onnx"]) == 2
    assert "--adapter and --onnx do not go together" in capfd.readouterr().err


def test_of_several_speakers_the_first_is_taken_and_it_is_said(run, tmp_path, caplog):
    voice = find_voice(VoiceSpec(str(run.checkpoint_path(2))))
    named = {name: tmp_path / f"{name}.wav" for name in ("kim", "ben")}
    export_adapter(replace(voice, speakers=named), tmp_path / "kim")
    assert "2 named speakers; the adapter takes the recording of the first one, kim" in caplog.text


def test_a_blend_is_the_same_adapter_at_its_share(workshop, run, tmp_path):
    verdict = Verdict("blend", 2, 0.25, "", "", False, run.verified(2).sha256)
    keep_best_blend(Checkpoints(run, None), verdict, workshop.base)
    voice = find_voice(VoiceSpec(str(run.best_blend)))
    export_adapter(voice, tmp_path / "blend")
    path = tmp_path / "blend" / adapter_file.FILE_NAME
    assert adapter_file.read(path)[0].share == 0.25
    assert near(merged(workshop, path), torch.load(run.best_blend, weights_only=True)["model"])
    remove(run, [run.best_blend_manifest, run.best_blend])


def test_the_base_as_the_best_has_none(workshop, run, tmp_path):
    voice = find_voice(VoiceSpec(str(run.checkpoint_path(2))))
    with pytest.raises(Exception, match="needs no adapter"):
        export_adapter(replace(voice, state=None), tmp_path / "none")
    with pytest.raises(Exception, match="its recording, and this run kept none"):
        export_adapter(replace(voice, reference=None), tmp_path / "none")
    assert not (tmp_path / "none").exists()
