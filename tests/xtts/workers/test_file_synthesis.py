"""Whoever speaks a file: where its parts compute, and what is refused before anything is."""

import shutil
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
import soundfile
import torch
from torchaudio.transforms import Resample

from machine.errors import SotaqueError
from xtts.audio import speaker_mel
from xtts.inference import voice
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.model import loading as model
from xtts.model import vocoder
from xtts.voices.base_models import DEMO
from xtts.workers.file_synthesis import FileSpeaker
from xtts.workers.requests import SpeakRequest


@pytest.mark.parametrize("mel_device", ["cpu", "meta"])
def test_the_speakers_mel_is_taken_where_it_is_told(monkeypatch, base_folder, mel_device):
    """ "meta" stands for a GPU: a device that is not the CPU. All else stays on the model's own."""
    sound = 0.1 * torch.randn(40_000, generator=torch.Generator().manual_seed(0))
    wanted = voice.voice_from_reference(model.load_model(base_folder), sound)
    seen: list[str] = []

    def spy(waveform: torch.Tensor) -> torch.Tensor:
        seen.append(waveform.device.type)
        on_cpu = waveform.cpu() if waveform.device.type == "cpu" else resampled
        return speaker_mel(on_cpu)

    resampled = voice.resample(sound, voice.CODE_RATE, voice.SPEAKER_RATE)[None]
    monkeypatch.setattr(vocoder, "speaker_mel", spy)
    loaded = FileSpeaker(base_folder, ComputeConfig("cpu", mel_device, "fp32")).model
    assert loaded.speaker_encoder.mel_device == torch.device(mel_device)
    found = voice.voice_from_reference(loaded, sound)
    assert seen == [mel_device]
    assert torch.equal(found.speaker, wanted.speaker) and found.speaker.device.type == "cpu"
    assert torch.equal(found.latents, wanted.latents)


HELLO = SynthesisRequest("hello", "en")
GOOD = 0.3 * np.sin(np.arange(44_100) / 20)
RECORDINGS = {
    "0.1 s": (GOOD[:2205], 22_050, "wav", "0.10 s long"),
    "silence": (np.zeros(44_100), 22_050, "wav", "is silent"),
    "an hour of silence": (np.zeros(3600 * 8_000, np.int16), 8_000, "flac", "is silent"),
    "NaN": (np.append(GOOD, np.nan).astype(np.float32), 22_050, "wav", "non-finite"),
    "no sound at all": (np.zeros(0), 22_050, "wav", "no samples"),
}
TEXTS = {
    "spaces": ("  \t\n ", "en", "nothing to speak"),
    "emoji": ("🙂🎉", "en", "nothing to speak"),
    "controls": ("\x00\x07\u202e\u200b", "en", "nothing to speak"),
    "a book": ("a word " * 14_286, "en", "100,002 characters"),
    "Klingon": ("nuqneH", "tlh", "not one of this model's"),
}


@pytest.fixture
def idle(base_folder: Path, monkeypatch: pytest.MonkeyPatch) -> FileSpeaker:
    """A speaker that may read no weights and compute nothing from here on."""
    speaker = FileSpeaker(base_folder, ComputeConfig(), keep_weights=False)

    call = torch.nn.Module.__call__

    def computed(*_arguments: object) -> NoReturn:
        pytest.fail("something was computed before the input was looked at")

    def only_resampled(module: torch.nn.Module, *arguments: object) -> object:
        """A recording comes at its own rate: reading it is how it is looked at."""
        return call(module, *arguments) if isinstance(module, Resample) else computed()

    monkeypatch.setattr(torch.nn.Module, "__call__", only_resampled)
    monkeypatch.setattr(speaker, "_take", computed)
    return speaker


def written(path: Path, samples: np.ndarray, rate: int) -> Path:
    soundfile.write(path, samples, rate, subtype="FLOAT" if samples.dtype == np.float32 else None)
    return path


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_that_cannot_be_spoken_costs_nothing(idle, tmp_path, name):
    text, language, told = TEXTS[name]
    reference = written(tmp_path / "good.wav", GOOD, 22_050)
    asked = SpeakRequest(SynthesisRequest(text, language), reference, tmp_path / "out.wav")
    with pytest.raises(SotaqueError, match=told):
        idle.ask(asked)
    assert not asked.out.exists()


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_recording_that_is_no_voice_costs_nothing(idle, tmp_path, name):
    samples, rate, form, told = RECORDINGS[name]
    reference = written(tmp_path / f"bad.{form}", samples, rate)
    if form == "flac":
        assert reference.stat().st_size < 250_000
    asked = SpeakRequest(HELLO, reference, tmp_path / "out.wav")
    tracemalloc.start()
    with pytest.raises(SotaqueError, match=told):
        idle.ask(asked)
    assert tracemalloc.get_traced_memory()[1] < 30e6  # an hour would be 115 MB in float32
    tracemalloc.stop()
    assert not asked.out.exists()


@pytest.mark.slow
def test_the_speaker_of_a_recording_is_taken_once(base_folder, tmp_path, monkeypatch):
    """Of the same recording, whatever weights speak; another one is heard, and so is the first
    after it. What is spoken is the same bit for bit."""
    one = written(tmp_path / "one.wav", GOOD, 22_050)
    other = written(tmp_path / "other.wav", GOOD[::-1].copy(), 22_050)
    heard: list[int] = []
    real = voice.speaker

    def spy(*given: Any) -> torch.Tensor:
        heard.append(1)
        return real(*given)

    monkeypatch.setattr(voice, "speaker", spy)
    speaker = FileSpeaker(base_folder, ComputeConfig(), keep_weights=False)
    out, counts = [], []
    for number, reference in enumerate((one, one, other, one)):
        path = tmp_path / f"{number}.wav"
        speaker.ask(SpeakRequest(HELLO, reference, path))
        out.append(path.read_bytes())
        counts.append(len(heard))
        heard.clear()
    assert counts == [2, 1, 2, 2]  # each time also of what was spoken, for the similarity
    assert out[0] == out[1] == out[3]


@pytest.mark.parametrize("keep", [0.0, 0.5, 0.999])
def test_a_damaged_base_is_told_when_it_is_loaded(base_folder, tmp_path, keep):
    folder = shutil.copytree(base_folder, tmp_path / "base")
    weights = folder / "model.pth"
    weights.write_bytes(weights.read_bytes()[: int(keep * weights.stat().st_size)])
    with pytest.raises(SotaqueError, match="cannot be read as model weights"):
        FileSpeaker(folder, ComputeConfig())


def test_a_damaged_checkpoint_is_told_and_the_next_one_is_spoken(base_folder, tmp_path):
    reference = written(tmp_path / "good.wav", GOOD, 22_050)
    damaged = tmp_path / "checkpoint_epoch_1.pt"
    damaged.write_bytes((base_folder / "model.pth").read_bytes()[:5000])
    speaker = FileSpeaker(base_folder, ComputeConfig(), keep_weights=False)
    asked = SpeakRequest(HELLO, reference, tmp_path / "out.wav", damaged)
    with pytest.raises(SotaqueError, match="checkpoint_epoch_1"):
        speaker.ask(asked)
    assert speaker.ask(replace(asked, weights=None)).audio_seconds > 0


def test_a_sample_knows_when_its_words_are_spoken(tmp_path):
    speaker = FileSpeaker(DEMO, ComputeConfig())
    text = SynthesisRequest("He paid $5.", "en")
    asked = SpeakRequest(text, DEMO / "reference.wav", tmp_path / "out.wav")
    found = speaker.ask(asked)
    assert found.words is not None
    assert [word for word, _, _ in found.words] == ["He", "paid", "$5"]
    edges = [edge for _, *word in found.words for edge in word]
    assert edges == sorted(edges) and edges[-1] <= found.audio_seconds
    speaker.compute = replace(speaker.compute, guard=False)
    assert speaker.ask(asked).words is None
