"""The encoder that compares voices: its input is librosa's, and it tells people apart."""

from pathlib import Path

import numpy as np
import pytest
import torch

from train.evaluation.plan import OTHER_VOICES
from xtts import audio
from xtts.evaluation import speaker_judge
from xtts.evaluation.speaker_judge import (
    RATE,
    SpeakerJudge,
    mel_power,
    mel_segments,
    normalize_level,
    shorten_pauses,
)

CLIPS = Path("train/data/demo/wavs")
# By librosa 0.11: bands 12 to 16 of a tone of 1,000 Hz.
TONE = [88.42064, 104.51998, 3.12854, 0.0, 0.0]


@pytest.fixture(scope="module")
def judge() -> SpeakerJudge:
    path = speaker_judge.weights_file()
    assert path is not None, speaker_judge.missing_reason()
    return SpeakerJudge(path)


def noise(seconds: float, level: float = 0.1) -> torch.Tensor:
    draw = torch.Generator().manual_seed(0)
    return level * torch.randn(int(RATE * seconds), generator=draw)


@pytest.mark.slow  # importing librosa takes half a minute of a busy core
def test_the_mel_is_librosas():
    import librosa

    sound = noise(2.5) + 0.2 * torch.sin(torch.arange(int(2.5 * RATE)) * 0.3)
    librosas = librosa.feature.melspectrogram(y=sound.numpy(), sr=RATE, n_fft=400, hop_length=160, n_mels=40)
    np.testing.assert_allclose(mel_power(sound).numpy(), librosas.T, rtol=1e-3, atol=1e-5)


def test_the_mel_of_a_tone_is_its_power_in_the_bands_beside_it():
    """As librosa computes it: Hann windows, bands of the area 1 on Slaney's scale."""
    frames = mel_power(torch.sin(2 * torch.pi * 1000 * torch.arange(RATE) / RATE))
    assert frames.shape == (101, 40)
    assert frames[50, 12:17].tolist() == pytest.approx(TONE, rel=1e-3, abs=1e-6)


@pytest.mark.parametrize(
    ("seconds", "windows"), [(0.4, 1), (1.6, 1), (2.0, 2), (2.4, 2), (3.2, 3), (10.0, 12)]
)
def test_windows_of_1_6_s_cover_a_recording(seconds, windows):
    """As many as the package itself makes; the last one may end in silence."""
    sound = noise(seconds)
    covering = mel_segments(sound)
    assert covering.shape == (windows, 160, 40)
    whole = mel_power(torch.nn.functional.pad(sound, (0, 4 * RATE)))
    for number, window in enumerate(covering[:-1]):
        assert torch.allclose(window, whole[77 * number : 77 * number + 160], atol=1e-5)


@pytest.mark.parametrize("level", [0.001, 0.1, 0.5])
def test_every_recording_is_as_loud(level):
    level_now = float(normalize_level(noise(1, level)).square().mean().sqrt())
    assert 20 * np.log10(level_now) == pytest.approx(-25, abs=0.1)


def test_pauses_are_cut_and_speech_is_not():
    silence = torch.zeros(RATE)
    sound = torch.cat((silence, noise(1), silence, noise(1), silence))
    seconds = len(shorten_pauses(sound)) / RATE
    assert 2.0 <= seconds <= 3.0
    assert len(shorten_pauses(noise(3))) == pytest.approx(3 * RATE, abs=480)
    assert (
        len(shorten_pauses(silence)) == pytest.approx(RATE, abs=480)
        and len(shorten_pauses(noise(0.01))) == 160
    )


def test_a_recording_is_like_itself_and_unlike_another_person(judge):
    first, second, *_ = sorted(CLIPS.glob("*.flac"))
    sounds = [audio.read(path, RATE) for path in (first, second, OTHER_VOICES / "rms-3.flac")]
    person, again, other = map(judge.embedding, sounds)
    assert person.shape == (256,) and float(person.norm()) == pytest.approx(1, abs=1e-5)
    assert float(person @ again) > 0.75 > 0.65 > float(person @ other)
    assert float(person @ judge.embedding(0.1 * sounds[0])) > 0.999
    assert torch.isfinite(judge.embedding(torch.zeros(RATE))).all()


def test_it_draws_from_no_random_state(judge):
    before = torch.get_rng_state()
    SpeakerJudge(speaker_judge.weights_file()).embedding(noise(1))
    assert torch.equal(before, torch.get_rng_state())


def test_without_the_package_it_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(speaker_judge, "PACKAGE", "no-such-package")
    assert speaker_judge.weights_file() is None
    assert "no-such-package is not installed" in str(speaker_judge.missing_reason())
    assert "--no-deps no-such-package" in str(speaker_judge.missing_reason())
