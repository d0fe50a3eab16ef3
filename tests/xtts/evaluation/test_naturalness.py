"""Naturalness by DistillMOS: it ranks candidates of known quality; nothing else depends on it."""

import io
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import soundfile
import torch
from torch import Tensor

from train.evaluation.judges import paired_difference
from train.evaluation.plan import OTHER_VOICES
from xtts import audio
from xtts.evaluation import naturalness
from xtts.evaluation.naturalness import PACKAGES, RATE, WINDOW_SAMPLES, NaturalnessJudge
from xtts.inference.compute_config import ComputeConfig
from xtts.model.config import ModelConfig
from xtts.model.vocoder import Vocoder
from xtts.voices.base_models import DEMO
from xtts.workers.tuned_model import TunedModel

installed = pytest.mark.skipif(
    naturalness.missing_reason() is not None, reason="distillmos is not installed: extra `naturalness`"
)
# A man and a woman, both synthetic.
CLIPS = ("rms-3", "slt-1")


def noisy(sound: Tensor, decibels: float) -> Tensor:
    """With white noise at this ratio of speech to noise, in dB."""
    noise = torch.randn(len(sound), generator=torch.Generator().manual_seed(0))
    return sound + noise * (sound.pow(2).mean() / 10 ** (decibels / 10)).sqrt()


def clipped(sound: Tensor) -> Tensor:
    return (12 * sound / sound.abs().max()).clamp(-1, 1)


def coded(sound: Tensor, format: str, subtype: str, rate: int = audio.VOCODER_RATE) -> Tensor:
    """Coded once, at this sample rate."""
    file = io.BytesIO()
    low = audio.resample(sound, audio.VOCODER_RATE, rate)
    soundfile.write(file, low.numpy(), rate, format=format, subtype=subtype)
    file.seek(0)
    decoded = torch.from_numpy(soundfile.read(file, dtype="float32")[0])
    return audio.resample(decoded, rate, audio.VOCODER_RATE)[: len(sound)]


def untrained(sound: Tensor) -> Tensor:
    """An equal length of sound from a vocoder with random weights."""
    config = ModelConfig.read(DEMO)
    with torch.random.fork_rng(devices=[]), torch.inference_mode():
        torch.manual_seed(0)
        speaker_width = config.speaker_encoder.embedding_width
        vocoder = Vocoder(config.gpt.width, speaker_width, config.vocoder).eval()
        latents = torch.randn(1, 40, config.gpt.width)
        return vocoder(latents, torch.randn(1, speaker_width, 1))[0, : len(sound)]


GOOD: dict[str, Callable[[Tensor], Tensor]] = {
    "clean": lambda sound: sound,
    "quiet": lambda sound: 0.3 * sound,
    "MP3": lambda sound: coded(sound, "MP3", "MPEG_LAYER_III"),
}
FAIR: dict[str, Callable[[Tensor], Tensor]] = {
    "noise at 20 dB": lambda sound: noisy(sound, 20),
    "8 kHz": lambda sound: coded(sound, "WAV", "PCM_16", 8000),
    "GSM": lambda sound: coded(sound, "WAV", "GSM610", 8000),
}
BAD: dict[str, Callable[[Tensor], Tensor]] = {
    "noise at 10 dB": lambda sound: noisy(sound, 10),
    "noise at 0 dB": lambda sound: noisy(sound, 0),
    "clipped": clipped,
    "untrained vocoder": untrained,
}


@pytest.fixture(scope="module")
def judge() -> NaturalnessJudge:
    return NaturalnessJudge()


def scores(judge: NaturalnessJudge, made: Callable[[Tensor], Tensor], clips: list[Path]) -> list[float]:
    sounds = [audio.read(path, audio.VOCODER_RATE) for path in clips]
    return [judge.mos(audio.resample(made(sound), audio.VOCODER_RATE, RATE)) for sound in sounds]


@installed
def test_ten_candidates_come_out_in_the_order_of_their_quality(judge):
    clips = [OTHER_VOICES / f"{name}.flac" for name in CLIPS]
    good, fair, bad = (
        {name: statistics.fmean(scores(judge, made, clips)) for name, made in group.items()}
        for group in (GOOD, FAIR, BAD)
    )
    assert min(good.values()) > max(fair.values()), (good, fair)
    assert min(fair.values()) > max(bad.values()), (fair, bad)


@pytest.mark.slow
@installed
def test_sentence_by_sentence_every_damage_is_measurable(judge):
    clips = sorted(OTHER_VOICES.glob("*.flac"))
    clean = scores(judge, GOOD["clean"], clips)
    for name, made in {**FAIR, **BAD}.items():
        gap = paired_difference(scores(judge, made, clips), clean)
        assert gap.high < 0 and gap.mean < -0.1, (name, gap)
    harmless = paired_difference(scores(judge, GOOD["quiet"], clips), clean)
    assert harmless.mean == pytest.approx(0, abs=1e-3)


@installed
@pytest.mark.parametrize(
    "samples", [4000, 40_001, WINDOW_SAMPLES - 5000, WINDOW_SAMPLES, WINDOW_SAMPLES + 30_000]
)
def test_silence_that_is_computed_once_changes_no_score(judge, samples):
    sound = torch.randn(samples, generator=torch.Generator().manual_seed(samples)).cumsum(0)[None]
    padded = torch.nn.functional.pad(sound, (0, max(0, WINDOW_SAMPLES - samples)))[:, :WINDOW_SAMPLES]
    with torch.inference_mode():
        whole = judge._model(padded).item()
    assert judge.mos(sound[0]) == pytest.approx(whole, abs=1e-4) and 1 <= whole <= 5


@pytest.mark.slow
@installed
def test_opening_it_draws_no_random_number_prints_nothing_and_needs_no_network():
    code = """
import socket, sys
socket.socket.connect = socket.create_connection = socket.getaddrinfo = None
import torch
from xtts.evaluation import naturalness
assert naturalness.missing_reason() is None and "distillmos" not in sys.modules
before = torch.get_rng_state()
naturalness.NaturalnessJudge().mos(torch.zeros(16000))
assert torch.equal(before, torch.get_rng_state())
assert not {"transformers", "librosa"} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


@pytest.mark.parametrize("hidden", PACKAGES)
def test_without_a_package_the_reason_names_the_extra(monkeypatch, hidden):
    monkeypatch.setitem(sys.modules, hidden, None)
    reason = naturalness.missing_reason()
    assert "distillmos is not installed" in reason and "naturalness" in reason


def test_a_package_that_cannot_be_opened_costs_its_figures_only(monkeypatch, base_folder, caplog):
    for name in (*PACKAGES, "distillmos.sqa"):
        monkeypatch.setitem(sys.modules, name, None)
    tuned = TunedModel(base_folder, ComputeConfig(precision="fp32"))
    assert tuned.naturalness_judge is None and tuned.naturalness_judge is None
    assert caplog.text.count("Naturalness is not judged") == 1
