"""The pitch of a recording: the median F0 of its voiced frames."""

import torch
from torch import Tensor

# Frames of 20 ms count as voiced if they are at most 20 dB below the loudest.
FRAME_SECONDS = 0.02
VOICED_SHARE = 0.1
LOWEST_HZ, HIGHEST_HZ = 60, 500
LEAST_SECONDS = 0.5


def median_pitch(waveform: Tensor, rate: int) -> float | None:
    """The median F0 in Hz of a recording `[samples]`, by torchaudio's cross-correlation; None for
    less than half a second, or for silence. A constant tone above 250 Hz, unlike any voice, may be
    reported as its half or third."""
    if len(waveform) < LEAST_SECONDS * rate:
        return None
    from torchaudio.functional import detect_pitch_frequency

    # At 8 kHz, because torchaudio computes every lag, and this has a sixth of them.
    from xtts.audio import resample

    waveform, rate = resample(waveform.float(), rate, 8000), 8000
    pitch = detect_pitch_frequency(
        waveform[None], rate, FRAME_SECONDS, freq_low=LOWEST_HZ, freq_high=HIGHEST_HZ
    )[0]
    size = round(FRAME_SECONDS * rate)
    frames = waveform[: len(waveform) // size * size].view(-1, size)
    loudness = frames.square().mean(1).sqrt()
    count = min(len(loudness), len(pitch))
    voiced = loudness[:count] > VOICED_SHARE * loudness.max()
    if float(loudness.max()) < 1e-4 or not bool(voiced.any()):
        return None
    return float(torch.median(pitch[:count][voiced]))
