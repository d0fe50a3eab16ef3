"""The pitch of a recording: its median, its spread and its course."""

from dataclasses import dataclass

import torch
from torch import Tensor

LOWEST_HZ, HIGHEST_HZ = 60, 500
MIN_SECONDS, FRAME_SECONDS = 0.5, 0.02
# Windows of 50 ms at 12 kHz.
COURSE_RATE, WINDOW = 12_000, 600
# A frame is voiced if its autocorrelation has such a peak, and at most 20 dB less power than the
# loudest. A multiple of the period has about the same peak, so each octave of longer period costs.
VOICED_PEAK, VOICED_SHARE, OCTAVE_COST = 0.5, 0.01, 0.03
# Semitones: frames further from the median are errors by an octave.
WITHIN = 10.0


@dataclass(frozen=True)
class Pitch:
    """The F0 of the voiced frames: the median in Hz, and the standard deviation of its logarithm in
    semitones, which is small for monotone speech."""

    median_hz: float
    spread_semitones: float


def pitch(waveform: Tensor, rate: int) -> Pitch | None:
    """The pitch of a recording `[samples]`; None for less than half a second, or without a voiced
    frame."""
    if len(waveform) < MIN_SECONDS * rate:
        return None
    count = int(len(waveform) / rate / FRAME_SECONDS)
    course = pitch_course(waveform, rate, count, FRAME_SECONDS)
    voiced = course[course > 0]
    if not len(voiced):
        return None
    semitones = 12 * (voiced - voiced.median())
    spread = semitones[semitones.abs() < WITHIN].std(correction=0)
    return Pitch(float(torch.exp2(voiced.median())), float(spread))


def pitch_course(waveform: Tensor, rate: int, count: int, seconds: float) -> Tensor:
    """The pitch in the middle of `count` frames of `seconds` each, `[count]`: log2 of Hz, 0 where a
    recording `[samples]` is unvoiced or has ended. The first high peak of the autocorrelation."""
    from xtts.audio import resample

    sound = resample(waveform.float(), rate, COURSE_RATE)
    middles = ((torch.arange(count) + 0.5) * seconds * COURSE_RATE).long()
    padded = torch.nn.functional.pad(sound, (WINDOW // 2, WINDOW))
    places = middles[:, None] + torch.arange(WINDOW)
    frames = padded[places.clamp(max=len(padded) - 1)]
    frames = frames - frames.mean(1, keepdim=True)
    power = torch.fft.rfft(frames, 2 * WINDOW).abs().square()
    correlation = torch.fft.irfft(power)[:, : WINDOW // 2]
    energy = correlation[:, :1].clamp(min=1e-6)
    # Fewer samples overlap at a longer lag.
    peaks = correlation / (1 - torch.arange(correlation.shape[1]) / WINDOW) / energy
    shortest, longest = COURSE_RATE // HIGHEST_HZ, COURSE_RATE // LOWEST_HZ
    lags = torch.arange(shortest, longest)
    best = (peaks[:, shortest:longest] - OCTAVE_COST * torch.log2(lags)).argmax(1) + shortest
    before, at, after = (peaks.gather(1, (best + move)[:, None])[:, 0] for move in (-1, 0, 1))
    # The summit of the parabola through the peak and its neighbours.
    summit = 0.5 * (before - after) / (before - 2 * at + after).clamp(max=-1e-6)
    height = torch.log2(COURSE_RATE / (best + summit.clamp(-0.5, 0.5)))
    voiced = (at > VOICED_PEAK) & (energy[:, 0] > VOICED_SHARE * energy.max())
    return torch.where(voiced, height, 0.0)
