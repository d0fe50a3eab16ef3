"""The files of an export, its refusals and its effect on existing files."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from extras.onnx import folder
from extras.onnx.export import exporter
from extras.onnx.folder import OnnxError
from extras.onnx.speech import loading as model
from machine.storage import folders
from tests.models import tiny_base
from xtts import audio, encoding
from xtts.audio import conditioning_mel, speaker_mel
from xtts.inference import latents_file, voice
from xtts.inference.compute_config import ComputeConfig
from xtts.model import vocoder
from xtts.model.config import ConfigError
from xtts.model.loading import read_tensors
from xtts.voices import learned_decoder
from xtts.voices.voice_files import VoiceFiles
from xtts.workers.decoder_learning import to_published


def run(path: Path, *given: torch.Tensor) -> np.ndarray:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    return session.run(None, dict(zip(names, (tensor.numpy() for tensor in given), strict=True)))[0]


def test_four_graphs_that_the_checker_accepts_at_a_stated_opset(onnx_folder):
    said = folder.verify(onnx_folder)
    graphs = sorted(name for name in said.files if name.endswith(".onnx"))
    assert graphs == sorted(
        [*folder.GPT_FILES.values(), folder.VOCODER_FILE, folder.CONDITIONING_FILE, folder.SPEAKER_FILE]
    )
    for name in graphs:
        onnx.checker.check_model(str(onnx_folder / name), full_check=name != folder.GPT_FILES["int8"])
        loaded = onnx.load(str(onnx_folder / name), load_external_data=False)
        assert loaded.opset_import[0].version == said.opset == 17
        assert {path.name for path in onnx_folder.iterdir()} == {*said.files, folder.MANIFEST_FILE}


@pytest.mark.parametrize("seconds", [0.5, 2.0])
def test_what_hears_a_voice_is_torchs(onnx_folder, torch_model, seconds):
    sound = 0.1 * torch.randn(int(22_050 * seconds), generator=torch.Generator().manual_seed(0))
    mel = conditioning_mel(sound[None], torch_model.mel_stats)
    expected = torch_model.gpt.conditioning_latents(mel).numpy()
    assert np.abs(run(onnx_folder / folder.CONDITIONING_FILE, mel) - expected).max() < 1e-4
    heard = torch_model.speaker_encoder(sound[None]).numpy()
    found = run(onnx_folder / folder.SPEAKER_FILE, speaker_mel(sound[None]))
    assert np.abs(found - heard).max() < 1e-5


def test_the_voice_of_its_own_recording_is_in_it(tmp_path, torch_model):
    base = tiny_base(tmp_path / "base")
    sound = 0.1 * torch.randn(44_100, generator=torch.Generator().manual_seed(0))
    encoding.write_wav(base / "reference.wav", sound, 22_050)
    exporter.export(exporter.source_of_folder(base), tmp_path / "to", ["int8"])
    found = model.read_voice(tmp_path / "to" / folder.LATENTS_FILE, torch_model.config)
    expected = voice.voice_from_reference(torch_model, audio.read(base / "reference.wav", 22_050))
    assert np.abs(found.latents - expected.latents.numpy()).max() < 1e-5
    assert np.abs(found.speaker - expected.speaker.numpy()).max() < 1e-5
    assert latents_file.read(tmp_path / "to" / folder.LATENTS_FILE, torch_model) is not None
    with pytest.raises(OnnxError, match="has int8, not fp32"):
        model.load_onnx_model(tmp_path / "to", ComputeConfig(precision="fp32"))


def test_the_vocoder_is_the_learned_one(tmp_path, torch_model):
    base, file = tiny_base(tmp_path / "base"), tmp_path / "best_decoder.safetensors"
    tensors = to_published(torch_model.vocoder, read_tensors(base / "model.pth"))
    louder = {name: tensor + 0.01 for name, tensor in tensors.items()}
    learned_decoder.write_tensors(file, louder)
    source = replace(exporter.source_of_folder(base), decoder=file)
    exporter.export(source, tmp_path / "to", ["int8"])
    steps = torch.randn(1, torch_model.config.gpt.width, 20)
    speaker = torch.randn(1, torch_model.config.speaker_encoder.embedding_width, 1)
    expected = vocoder.load_vocoder(louder, torch_model.config).sound(steps, speaker)
    (found,) = run(tmp_path / "to" / folder.VOCODER_FILE, steps, speaker)
    assert np.abs(found - expected.numpy()).max() < 1e-3


@pytest.mark.parametrize("kinds", [("int8",), ("fp32",), ("fp32", "int8")])
def test_the_space_that_it_takes_is_asked_for(base_folder, tmp_path, monkeypatch, kinds):
    asked: list[int] = []
    monkeypatch.setattr(folders, "require_space", lambda folder, size, what: asked.append(size))
    exporter.export(exporter.source_of_folder(base_folder), tmp_path / "to", kinds)
    numbers = [
        path.stat().st_size for path in (tmp_path / "to").iterdir() if path.suffix in (".data", ".npy")
    ]
    assert asked[0] == pytest.approx(sum(numbers), rel=0.15)


@pytest.mark.slow
def test_an_earlier_export_is_replaced_and_other_things_are_not(base_folder, tmp_path):
    source, to = exporter.source_of_folder(base_folder), tmp_path / "to"
    exporter.export(source, to, ["int8"])
    exporter.export(source, to, ["int8"])
    (to / "mine.txt").write_text("mine")
    with pytest.raises(OnnxError, match=r"mine\.txt"):
        exporter.export(source, to, ["int8"])
    assert (to / "mine.txt").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["to"]


def test_weights_of_another_model_are_refused(base_folder, tmp_path):
    other = tiny_base(tmp_path / "other", layers=3)
    learned = exporter.mapped_model(base_folder).gpt.state_dict()
    state = {f"gpt.{name}": value for name, value in learned.items()}
    source = VoiceFiles(other, other / "model.pth", None, None, state)
    with pytest.raises(ConfigError, match="Use files of one model"):
        exporter.export(source, tmp_path / "to")
    assert not (tmp_path / "to").exists()


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (lambda at: (at / "onnx.json").unlink(), "onnx.json cannot be read"),
        (lambda at: (at / "onnx.json").write_text("{}"), "onnx.json is damaged"),
        (lambda at: (at / "gpt_int8.onnx.data").unlink(), "gpt_int8.onnx.data"),
        (lambda at: flip(at / "vocoder.onnx.data"), "vocoder.onnx.data"),
        (lambda at: unnamed(at, "vocoder.onnx"), "does not name vocoder.onnx"),
        (lambda at: kinds(at, []), "kinds are []"),
        (lambda at: kinds(at, ["int8", "int3"]), "kinds are ['int8', 'int3']"),
    ],
)
def test_a_folder_that_is_not_whole_is_refused(onnx_folder, tmp_path, harm, told):
    copy = shutil.copytree(onnx_folder, tmp_path / "copy")
    harm(copy)
    with pytest.raises(OnnxError, match=re.escape(told)):
        model.load_onnx_model(copy, ComputeConfig(precision="int8"))


def test_of_the_gpt_only_what_is_used_is_read(onnx_folder, tmp_path):
    copy = shutil.copytree(onnx_folder, tmp_path / "copy")
    flip(copy / "gpt.onnx.data")
    assert model.load_onnx_model(copy, ComputeConfig(precision="int8")).kind == "int8"
    with pytest.raises(OnnxError, match=r"gpt\.onnx\.data"):
        model.load_onnx_model(copy, ComputeConfig(precision="fp32"))


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[1000] ^= 1
    path.write_bytes(content)


def kinds(at: Path, told: list[str]) -> None:
    said = json.loads((at / "onnx.json").read_text())
    (at / "onnx.json").write_text(json.dumps({**said, "kinds": told}))


def unnamed(at: Path, name: str) -> None:
    said = json.loads((at / "onnx.json").read_text())
    del said["files"][name]
    (at / "onnx.json").write_text(json.dumps(said))


@pytest.mark.parametrize(
    ("latents", "speaker", "told"),
    [
        (torch.zeros(1, 32, 8), 512, "another model"),
        (torch.zeros(1, 32, 64), 256, r"its speaker \[1, 256, 1\]"),
        (torch.full((1, 32, 64), torch.nan), 512, "non-finite"),
        (None, 0, "does not contain a voice"),
    ],
)
def test_a_voice_of_another_model_is_refused(tmp_path, onnx_model, latents, speaker, told):
    path = tmp_path / "v.safetensors"
    path.write_bytes(b"nonsense")
    if latents is not None:
        latents_file.write(path, voice.Voice(latents, torch.zeros(1, speaker, 1)))
    with pytest.raises(OnnxError, match=told):
        model.read_voice(path, onnx_model.config)
