"""The pitch of a recording: its median, its spread and its course."""

from dataclasses import dataclass

import torch
from torch import Tensor

MIN_HZ, MAX_HZ = 60, 500
MIN_SECONDS, FRAME_SECONDS = 0.5, 0.02
# Windows of 50 ms at 12 kHz.
COURSE_RATE, WINDOW_SAMPLES = 12_000, 600
# A voiced frame has such a peak in its autocorrelation, and at least this share of the largest power.
MIN_VOICED_PEAK, MIN_VOICED_POWER = 0.5, 0.01
# Subtracted from a peak per octave of longer period: a multiple of the period has about the same peak.
COST_PER_OCTAVE = 0.03
# Frames further from the median are errors by an octave.
MAX_SEMITONES_FROM_MEDIAN = 10.0


@dataclass(frozen=True)
class Pitch:
    """The F0 of the voiced frames: the median in Hz, and the standard deviation of its logarithm in
    semitones, which is small for monotone speech."""

    median_hz: float
    spread_semitones: float


def measure_pitch(waveform: Tensor, rate: int) -> Pitch | None:
    """The pitch of a recording `[samples]`; None for less than half a second, or without a voiced
    frame."""
    if len(waveform) < MIN_SECONDS * rate:
        return None
    num_frames = int(len(waveform) / rate / FRAME_SECONDS)
    course = pitch_course(waveform, rate, num_frames, FRAME_SECONDS)
    voiced = course[course > 0]
    if not len(voiced):
        return None
    semitones = 12 * (voiced - voiced.median())
    spread = semitones[semitones.abs() < MAX_SEMITONES_FROM_MEDIAN].std(correction=0)
    return Pitch(float(torch.exp2(voiced.median())), float(spread))


def pitch_course(waveform: Tensor, rate: int, num_frames: int, frame_seconds: float) -> Tensor:
    """The pitch of a recording `[samples]` in the middle of each frame, `[num_frames]`: log2 of Hz, 0
    where the recording is unvoiced or has ended. It is the first high peak of the autocorrelation."""
    from xtts.audio import resample

    sound = resample(waveform.float(), rate, COURSE_RATE)
    middles = ((torch.arange(num_frames) + 0.5) * frame_seconds * COURSE_RATE).long()
    padded = torch.nn.functional.pad(sound, (WINDOW_SAMPLES // 2, WINDOW_SAMPLES))
    positions = middles[:, None] + torch.arange(WINDOW_SAMPLES)
    frames = padded[positions.clamp(max=len(padded) - 1)]
    frames = frames - frames.mean(1, keepdim=True)
    power = torch.fft.rfft(frames, 2 * WINDOW_SAMPLES).abs().square()
    correlation = torch.fft.irfft(power)[:, : WINDOW_SAMPLES // 2]
    energy = correlation[:, :1].clamp(min=1e-6)
    # Fewer samples overlap at a longer lag.
    peaks = correlation / (1 - torch.arange(correlation.shape[1]) / WINDOW_SAMPLES) / energy
    min_lag, max_lag = COURSE_RATE // MAX_HZ, COURSE_RATE // MIN_HZ
    lags = torch.arange(min_lag, max_lag)
    best_lag = (peaks[:, min_lag:max_lag] - COST_PER_OCTAVE * torch.log2(lags)).argmax(1) + min_lag
    before, peak, after = (peaks.gather(1, (best_lag + offset)[:, None])[:, 0] for offset in (-1, 0, 1))
    # The summit of the parabola through the peak and its neighbours.
    summit = 0.5 * (before - after) / (before - 2 * peak + after).clamp(max=-1e-6)
    log2_hz = torch.log2(COURSE_RATE / (best_lag + summit.clamp(-0.5, 0.5)))
    is_voiced = (peak > MIN_VOICED_PEAK) & (energy[:, 0] > MIN_VOICED_POWER * energy.max())
    return torch.where(is_voiced, log2_hz, 0.0)
