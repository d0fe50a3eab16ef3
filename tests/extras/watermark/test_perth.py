"""PerTh's watermark. Tests that need its weights are skipped without `resemble-perth`, which is not
in the locks."""

import io

import numpy as np
import pytest
import soundfile
import torch

from api.settings import ApiSettings
from extras.watermark import perth
from extras.watermark.weights import PACKAGE, missing
from machine.errors import SotaqueError
from machine.settings.loading import SettingsError, load
from tests.installed import ROOT
from train.settings import TrainSettings
from xtts import audio, encoding, marks
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.voices.loading import load_voice
from xtts.voices.served_voice import ServedVoiceSettings
from xtts.voices.voice_files import VoiceSpec

RATE = 24_000


needs_weights = pytest.mark.skipif(missing() is not None, reason=f"{PACKAGE} is not installed")


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marks, "_watermark_modules", [])
    marks.use_watermark("perth")


@pytest.fixture(scope="module")
def speech() -> torch.Tensor:
    return audio.read(ROOT / "docs/audio/epoch_4.wav", RATE)


def test_without_its_weights_it_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(marks, "_watermark_modules", [])
    monkeypatch.setattr("extras.watermark.weights.weights_file", lambda: None)
    monkeypatch.setattr(perth, "weights_file", lambda: None)
    perth._network.cache_clear()
    told = r"WATERMARK=perth needs the weights of resemble-perth.*watermark"
    with pytest.raises(SotaqueError, match=told):
        marks.use_watermark("perth")
    assert marks.watermarked(5) == 5
    for kind in (TrainSettings, ApiSettings, ServedVoiceSettings):
        assert load(kind, (), {}, tmp_path / ".env")[0].watermark == "off"
        with pytest.raises(SettingsError, match=told):
            load(kind, (), {"WATERMARK": "perth"}, tmp_path / ".env")


def test_a_copy_without_the_extra_says_so(monkeypatch):
    monkeypatch.setattr(marks, "_watermark_modules", [])
    monkeypatch.setattr("machine.extras.first", lambda _port: None)
    with pytest.raises(SotaqueError, match="needs extras/watermark"):
        marks.use_watermark("perth")
    marks.use_watermark("off")


@needs_weights
def test_the_watermark_is_heard_and_the_sound_is_nearly_the_same(speech):
    marked = perth.mark(speech)
    assert perth.confidence(speech) < 0.2 and perth.confidence(marked) > 0.9
    assert marked.shape == speech.shape and marked.dtype == torch.float32
    noise = 10 * torch.log10(speech.square().sum() / (marked - speech).square().sum())
    assert noise > 14
    # Above 2 kHz nothing changes.
    spectra = [torch.fft.rfft(sound) for sound in (speech, marked)]
    high = int(2_100 / RATE * len(speech))
    assert (spectra[1] - spectra[0])[high:].abs().max() < 0.01 * spectra[0][high:].abs().max()


@needs_weights
@pytest.mark.parametrize("form", ["mp3", "opus", "aac"])
def test_it_survives_an_encoder(speech, form):
    for sound, least, most in ((perth.mark(speech), 0.9, 1.0), (speech, 0.0, 0.2)):
        data = encoding.encode(form, encoding.pcm16(sound.numpy()))
        path = io.BytesIO(data)
        heard = decoded(path) if form == "aac" else soundfile.read(path, dtype="float32")[0]
        assert least <= perth.confidence(torch.from_numpy(heard)) <= most


def decoded(file: io.BytesIO) -> np.ndarray:
    import av

    with av.open(file) as container:
        frames = [frame.to_ndarray()[0] for frame in container.decode(audio=0)]
    return np.concatenate(frames)


@needs_weights
def test_it_survives_chunks_a_cut_and_another_rate(speech):
    marked = torch.cat([perth.mark(chunk) for chunk in speech.split(6_000)])
    second = marked[RATE : 2 * RATE]
    for sound in (marked, second):
        assert perth.confidence(sound) > 0.9
        there = audio.resample(sound, RATE, 16_000)
        assert perth.confidence(audio.resample(there, 16_000, RATE)) > 0.9
    # Chunks fade their watermark in and out: no joint is louder than the speech around it.
    joints = torch.arange(6_000, len(speech) - 1, 6_000)
    assert (marked - speech)[joints].abs().max() < 1e-6


@needs_weights
def test_silence_short_chunks_and_arrays_are_taken():
    for size in (0, 1, perth.MIN_SAMPLES - 1, perth.MIN_SAMPLES, 5_000):
        silence = torch.zeros(size)
        assert torch.equal(perth.mark(silence), silence)
        assert np.array_equal(perth.mark(silence.numpy()), silence.numpy())


@needs_weights
def test_all_speech_of_the_process_is_watermarked(used):
    voice = load_voice(VoiceSpec("demo"))
    request = SynthesisRequest("Good morning. It is a long story, and nobody knows its end.", "en")
    whole = voice.synthesize(request)
    streamed = np.concatenate(list(voice.stream(request)))
    assert perth.confidence(torch.from_numpy(whole)) > 0.9
    assert perth.confidence(torch.from_numpy(streamed)) > 0.9
    marks._watermark_modules.clear()
    assert perth.confidence(torch.from_numpy(voice.synthesize(request))) < 0.5


def test_nothing_changes_while_it_is_off(monkeypatch, speech):
    monkeypatch.setattr(marks, "_watermark_modules", [])
    marks.use_watermark("off")
    assert marks.watermarked(speech) is speech
