"""A voice is taken from speech: silence, noise or a click before it does not change it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import soundfile
import torch

from api.voices import samples
from api.voices.decoding import decode
from tests.api.decoding import correlation
from xtts import audio
from xtts.audio import CODE_RATE
from xtts.inference import voice
from xtts.inference.latents_file import latents_of_recording
from xtts.inference.voice import VoiceError, read_reference
from xtts.model.config import ModelConfig
from xtts.model.loading import load_model
from xtts.voices.base_models import DEMO

CLIPS = [
    soundfile.read(f"train/data/demo/wavs/demo-{number}.flac", dtype="float32") for number in (150, 190, 90)
]
SPEECH, RATE = np.concatenate([samples for samples, _ in CLIPS]), CLIPS[0][1]
LEVEL = float(np.sqrt(np.mean(SPEECH**2)))
CONFIG = ModelConfig.read(DEMO)


def silence(seconds: float) -> np.ndarray:
    return np.zeros(int(seconds * RATE), np.float32)


def noise(seconds: float, below_db: float) -> np.ndarray:
    drawn = np.random.default_rng(0).normal(0, 1, int(seconds * RATE))
    return (drawn * LEVEL * 10 ** (-below_db / 20)).astype(np.float32)


def click(seconds: float) -> np.ndarray:
    """A keystroke, then silence until the person speaks."""
    sound = silence(seconds)
    sound[1000:3000] = 0.5 * np.sin(np.arange(2000))
    return sound


LEADS = {
    "8 s": silence(8),
    "12 s": silence(12),
    "40 s": silence(40),
    "100 s": silence(100),
    "a quiet room": noise(12, 45),
    "a loud room": noise(12, 20),
    "much room": noise(40, 25),
    "a click": click(8),
    "a click and more": np.concatenate([click(2), noise(15, 40)]),
}


def after(lead: str) -> tuple[np.ndarray, np.ndarray]:
    """What precedes the speech with the speech, and the speech alone. The noise of a loud room
    continues."""
    loud = lead == "a loud room"
    speech = SPEECH + noise(len(SPEECH) / RATE, 20)[: len(SPEECH)] if loud else SPEECH
    return np.concatenate([LEADS[lead], speech]), speech


def written(folder: Path, sound: np.ndarray, form: str = "wav") -> Path:
    path = folder / f"reference.{form}"
    soundfile.write(path, sound, RATE)
    return path


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """The speech alone."""
    path = tmp_path / "plain.wav"
    soundfile.write(path, SPEECH, RATE)
    return path


@pytest.mark.parametrize(
    ("lead", "count"), [*((lead, 1) for lead in LEADS), ("40 s", 2), ("a quiet room", 2)]
)
def test_what_comes_before_the_speech_is_not_heard(tmp_path, plain, lead, count):
    path = written(tmp_path, after(lead)[0])
    heard = read_reference(CONFIG, path if count == 1 else (path, plain)).numpy()
    alone = read_reference(CONFIG, plain).numpy()
    # With two speakers, turns are two seconds long.
    size = int(1.5 * CODE_RATE) if count == 2 else min(len(heard), len(alone)) - CODE_RATE // 2
    assert len(heard) >= size
    most = CODE_RATE // 4
    assert max(correlation(heard[:size], alone, most), correlation(alone, heard[:size], most)) > 0.9


def test_a_reference_that_begins_with_speech_is_as_ever(tmp_path):
    for sound in (SPEECH, np.concatenate([silence(0.05), SPEECH])):
        path = written(tmp_path, sound)
        most = CONFIG.conditioning
        seconds = max(most.total_seconds, most.speaker_seconds)
        ever = audio.read(path, CODE_RATE, max_seconds=seconds)
        assert torch.equal(read_reference(CONFIG, path), ever)


def test_the_voice_stays_the_same_person(tmp_path, plain):
    """8 s of silence once lowered the similarity from 0.72 to 0.45, 12 s to 0.20."""
    model = load_model(DEMO)
    alone = latents_of_recording(model, "", plain, None)
    path = written(tmp_path, np.concatenate([silence(12), SPEECH]))
    other = latents_of_recording(model, "", path, None)
    cosine = float(torch.dot(other.speaker.flatten(), alone.speaker.flatten()))
    assert cosine > 0.98
    latents = torch.nn.functional.cosine_similarity(other.latents.flatten(), alone.latents.flatten(), dim=0)
    assert float(latents) > 0.95


@pytest.mark.parametrize("lead", LEADS)
def test_the_quality_is_that_of_the_speech(lead):
    sound, speech = after(lead)
    alone, measured = samples.measure(speech, RATE), samples.measure(sound, RATE)
    assert measured["word"] == alone["word"] == "good"
    assert measured["speech_seconds"] == pytest.approx(alone["speech_seconds"], abs=0.3)
    assert measured["level_db"] == pytest.approx(alone["level_db"], abs=1)


def test_silence_before_bad_speech_does_not_make_it_good():
    loud_room = SPEECH + noise(len(SPEECH) / RATE, 3)[: len(SPEECH)]
    alone = samples.measure(loud_room, RATE)
    measured = samples.measure(np.concatenate([silence(12), loud_room]), RATE)
    assert alone["word"] == measured["word"] == "poor"


@pytest.mark.parametrize("peak", [0.0, 2e-4, 9e-4])
def test_a_silent_recording_is_refused_alike(tmp_path, peak):
    sound = peak * np.sin(np.arange(5 * RATE) / 20).astype(np.float32)
    sound *= np.sin(np.arange(5 * RATE) / RATE * 9)  # not steady
    path = tmp_path / "silent.wav"
    soundfile.write(path, sound, RATE, subtype="FLOAT")
    model: Any = SimpleNamespace(config=CONFIG)
    for ask in (lambda: read_reference(CONFIG, path), lambda: latents_of_recording(model, "", path, None)):
        with pytest.raises(VoiceError, match="is silent: no sample is above -60 dB"):
            ask()
    with pytest.raises(ValueError, match="is silent: no sample is above -60 dB"):
        decode(path.read_bytes(), 60.0)


def test_no_more_than_ten_silent_minutes_are_looked_at(tmp_path, monkeypatch):
    path = tmp_path / "hours.flac"
    soundfile.write(path, np.zeros(3600 * 8000, np.int16), 8000)
    looked, blocks = list[int](), audio.blocks

    def counted(*given):
        for block, rate in blocks(*given):
            looked.append(len(block) // rate)
            yield block, rate

    monkeypatch.setattr(voice.audio, "blocks", counted)
    with pytest.raises(VoiceError, match="is silent"):
        read_reference(CONFIG, path)
    assert sum(looked) == 600
