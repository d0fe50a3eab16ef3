"""The median, the spread and the course of known pitches."""

import pytest
import torch

from xtts.evaluation.pitch import measure_pitch, pitch_course

RATE = 24_000


def tone(hertz: float, seconds: float = 1.0, vibrato: float = 0.04) -> torch.Tensor:
    """Ten harmonics, each weaker than the one below, with the vibrato of a voice."""
    times = torch.arange(int(RATE * seconds)) / RATE
    moving = hertz * (1 + vibrato * torch.sin(2 * torch.pi * 3 * times))
    phase = 2 * torch.pi * torch.cumsum(moving, 0) / RATE
    return sum((torch.sin(phase * n) / n for n in range(1, 11)), times * 0)


@pytest.mark.parametrize("hertz", [90.0, 120.0, 210.0, 300.0, 350.0])
def test_the_pitch_of_a_tone(hertz):
    assert measure_pitch(0.1 * tone(hertz), RATE).median_hz == pytest.approx(hertz, rel=0.06)


def test_what_is_quiet_has_no_say():
    sound = torch.cat((0.1 * tone(120), 0.001 * tone(300, 2.0)))
    assert measure_pitch(sound, RATE).median_hz == pytest.approx(120, rel=0.06)


@pytest.mark.parametrize("hertz", [100.0, 220.0])
@pytest.mark.parametrize("vibrato", [0.0, 0.04, 0.1, 0.2])
def test_the_spread_is_the_deviation_of_log_f0_in_semitones(hertz, vibrato):
    phase = torch.arange(3000) / 3000 * 2 * torch.pi
    spread = float((12 * torch.log2(1 + vibrato * torch.sin(phase))).std())
    measured = measure_pitch(0.1 * tone(hertz, 2.0, vibrato), RATE)
    assert measured.spread_semitones == pytest.approx(spread, abs=0.1)


def test_errors_by_an_octave_are_no_melody():
    """The second sound repeats at half the pitch."""
    sound = torch.cat((0.1 * tone(200.0, 2.0), 0.1 * tone(100.0, 0.4)))
    assert measure_pitch(sound, RATE).spread_semitones < 0.7


def test_silence_and_a_moment_have_none():
    assert measure_pitch(torch.zeros(RATE), RATE) is None
    assert measure_pitch(0.1 * tone(120, 0.3), RATE) is None


@pytest.mark.parametrize("hertz", [90.0, 160.0, 300.0])
def test_the_course_of_a_vibrato_and_of_silence(hertz):
    sound = torch.cat((0.1 * tone(hertz), torch.zeros(RATE // 2)))
    course = pitch_course(sound, RATE, 170, 0.01)
    inside = course[5:95]
    times = (torch.arange(5, 95) + 0.5) * 0.01
    expected = torch.log2(hertz * (1 + 0.04 * torch.sin(2 * torch.pi * 3 * times)))
    assert float((inside - expected).abs().max()) < 0.02
    assert not course[105:].any()


def test_noise_has_no_pitch():
    noise = torch.randn(RATE, generator=torch.Generator().manual_seed(0))
    assert float((pitch_course(noise, RATE, 100, 0.01) > 0).float().mean()) < 0.05


@pytest.mark.parametrize("hertz", [211.7, 330.3])
def test_a_period_between_two_samples_is_measured_by_the_summit_of_a_parabola(hertz):
    """At 12 kHz, 211.7 Hz have a period of 56.7 samples: the nearest whole one is 0.56 % away."""
    times = torch.arange(RATE, dtype=torch.float64) / RATE
    pure = (0.1 * torch.sin(2 * torch.pi * hertz * times)).float()
    assert measure_pitch(pure, RATE).median_hz == pytest.approx(hertz, rel=0.001)
