"""The pitch of a recording: the median F0 of its voiced frames."""

import torch
from torch import Tensor

# Of each 20 ms, only what is at most 20 dB under the loudest has a pitch worth a median.
FRAME_SECONDS = 0.02
VOICED_SHARE = 0.1
LOWEST_HZ, HIGHEST_HZ = 60, 500
LEAST_SECONDS = 0.5


def median_pitch(waveform: Tensor, rate: int) -> float | None:
    """F0 in Hz of a recording `[samples]`, by torchaudio's cross-correlation; None for less than
    half a second, or for silence. A tone above 250 Hz that never moves, as no voice speaks, may be
    taken for its half or third."""
    if len(waveform) < LEAST_SECONDS * rate:
        return None
    from torchaudio.functional import detect_pitch_frequency

    # It computes every lag: at 8 kHz a sixth of them.
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
