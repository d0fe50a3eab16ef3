"""The judges on sounds with known properties."""

import math

import pytest
import torch
from torch import Tensor

from benchmarks import judges


def voice(pitch: float, brightness: float, seed: int, seconds: float = 1.0) -> Tensor:
    """A buzz at this pitch. `brightness` is the exponent with which its overtones fall."""
    generator = torch.Generator().manual_seed(seed)
    time = torch.arange(int(seconds * judges.RATE)) / judges.RATE
    pitch = pitch * (1 + 0.02 * float(torch.randn(1, generator=generator)))
    harmonics = range(1, int(7000 / pitch))
    buzz = sum(torch.sin(2 * math.pi * pitch * n * time) / n**brightness for n in harmonics)
    noise = torch.randn(len(time), generator=generator)
    return 0.1 * buzz * (1.2 + torch.sin(9 * time + seed)) + 0.001 * noise


@pytest.mark.parametrize("pitch", [90.0, 127.0, 200.0])
def test_pitch_is_found(pitch):
    found = judges.fundamental(voice(pitch, 1.0, 0)).median()
    assert found == pytest.approx(pitch, rel=0.05)
    # Silence has no pitch, but still a portrait.
    assert torch.isfinite(torch.from_numpy(judges.portrait(torch.zeros(8000) + 1e-4))).all()


def test_voices_are_told_apart_and_scaled():
    kinds = {"low": (90.0, 1.0), "middle": (130.0, 1.4), "high": (200.0, 0.8)}
    clips = {name: [voice(*kind, seed) for seed in range(15)] for name, kind in kinds.items()}
    judge = judges.VoiceJudge.learn(clips, "high")
    unheard = {name: voice(*kind, 99) for name, kind in kinds.items()}
    assert [judge.name(clip) for clip in unheard.values()] == list(kinds)
    assert judge.similarity(unheard["high"]) == pytest.approx(1.0, abs=0.2)
    others = [judge.similarity(unheard[name]) for name in ("low", "middle")]
    assert sum(others) / 2 == pytest.approx(0.0, abs=0.4)


@pytest.mark.slow
@pytest.mark.parametrize("far", [judges.cepstral_distortion, judges.distance])
def test_a_distance_ignores_tempo_and_sees_timbre(far):
    one = voice(120.0, 1.0, 1)
    slower = torch.cat((one[:8000], one[4000:]))
    other = voice(120.0, 2.0, 1)
    assert far(one, one) < 0.1
    assert far(one, slower) < far(one, other) / 2


def test_word_errors_are_counted_over_all_sentences():
    assert judges.word_errors(["One two.", "three four"], ["one two", "three"]) == 0.25
    assert judges.word_errors(["One two."], [""]) == 1.0
    assert judges.counted_errors("One, two three.", "one three four") == (2, 3)
