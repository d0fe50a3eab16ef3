"""`python -m xtts speak --voice ONNX-FOLDER`."""

from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from extras.onnx.folder import OnnxError
from extras.onnx.speech import conditioning
from extras.onnx.speech import loading as model
from xtts import audio, encoding
from xtts.__main__ import main
from xtts.inference import latents_file, voice
from xtts.inference.compute_config import ComputeConfig


def speaking(folder: Path, out: Path, *more: str) -> int:
    words = ["speak", "--voice", str(folder), "--text", "one two.", "--out", str(out)]
    return main([*words, *more])


def test_it_speaks_with_stored_latents(onnx_folder, torch_voice, tmp_path, capsys):
    stored = tmp_path / "voice.safetensors"
    latents_file.write(stored, torch_voice)
    for name, more in (("a.wav", ()), ("b.wav", ()), ("c.wav", ("--low-memory",))):
        assert speaking(onnx_folder, tmp_path / name, "--latents", str(stored), *more) == 0
        samples, rate = soundfile.read(tmp_path / name)
        assert rate == 24_000 and len(samples) > 0
        assert f"{tmp_path / name}: {len(samples) / rate:.2f} s" in capsys.readouterr().out
    assert (tmp_path / "a.wav").read_bytes() == (tmp_path / "b.wav").read_bytes()


@pytest.mark.parametrize(
    ("more", "told"),
    [((), "does not include a speaker"), (("--precision", "bf16"), "has fp32 and int8 and int4, not bf16")],
)
def test_it_says_whose_voice_or_which_precision_is_missing(onnx_folder, tmp_path, capsys, more, told):
    assert speaking(onnx_folder, tmp_path / "a.wav", *more) == 2
    assert told in capsys.readouterr().err


@pytest.mark.slow
def test_a_recording_is_heard_as_torch_hears_it(onnx_folder, onnx_model, torch_model, tmp_path):
    recording = tmp_path / "who.wav"
    sound = 0.1 * torch.randn(60_000, generator=torch.Generator().manual_seed(0))
    encoding.write_wav(recording, sound, 22_050)
    expected = voice.voice_from_reference(torch_model, audio.read(recording, 22_050))
    kept = tmp_path / "kept"
    for _ in range(2):  # computed, then read from the cache
        found = conditioning.voice_of_recording(onnx_model, recording, kept)
        assert np.abs(found.latents - expected.latents.numpy()).max() < 1e-4
        assert np.abs(found.speaker - expected.speaker.numpy()).max() < 1e-5
    assert len(list(kept.iterdir())) == 1
    assert speaking(onnx_folder, tmp_path / "a.wav", "--reference", str(recording)) == 0


@pytest.mark.slow
def test_a_recording_without_a_voice_is_refused_by_the_child(onnx_model, tmp_path):
    recording = tmp_path / "silence.wav"
    encoding.write_wav(recording, torch.zeros(60_000), 22_050)
    with pytest.raises(OnnxError, match="is silent"):
        conditioning.voice_of_recording(onnx_model, recording)
    with pytest.raises(OnnxError, match=r"none\.wav"):
        conditioning.voice_of_recording(onnx_model, tmp_path / "none.wav")


def test_low_memory_rounds_bounds_threads_and_keeps_nothing():
    options = model.session_options(ComputeConfig(low_memory=True))
    assert (options.threads, options.arena, options.spinning) == (1, False, False)


def test_threads_are_those_that_this_process_may_use(monkeypatch):
    """ONNX Runtime would use all cores of the machine, whatever a container allows."""
    monkeypatch.setattr(model, "cpu_count", lambda: 3)

    def asked(low: bool = False, threads: int | None = None) -> int:
        return model.session_options(ComputeConfig(low_memory=low, threads=threads)).threads

    assert (asked(), asked(threads=2), asked(True), asked(True, 2)) == (3, 2, 1, 2)


@pytest.mark.parametrize(
    ("precision", "width", "low", "kind"),
    [
        ("auto", 1024, False, "int8"),
        ("auto", 256, False, "fp32"),
        ("auto", 256, True, "int8"),
        ("fp32", 1024, True, "fp32"),
        ("int8", 64, False, "int8"),
    ],
)
def test_what_auto_means(precision, width, low, kind):
    assert model.gpt_kind(precision, width, low_memory=low) == kind
