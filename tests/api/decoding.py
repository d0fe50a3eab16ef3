"""Decodes a sound of any format completely, with FFmpeg.

A stream's header has no length, and libsndfile guesses one from the first frames.
"""

import io

import av
import numpy as np


def decoded(sound: bytes) -> np.ndarray:
    """Mono samples in -1..1 at 24 kHz (Opus is 48 kHz natively and is resampled)."""
    with av.open(io.BytesIO(sound)) as file:
        stream = file.streams.audio[0]
        resampler = av.AudioResampler(format="flt", layout="mono", rate=24_000)
        assert stream.codec_context.channels == 1
        assert stream.codec_context.sample_rate == (48_000 if stream.name == "opus" else 24_000)
        frames = [out for frame in file.decode(stream) for out in resampler.resample(frame)]
        frames += resampler.resample(None)
    return np.concatenate([frame.to_ndarray() for frame in frames], axis=1)[0]


def correlation(sound: np.ndarray, reference: np.ndarray, most_shift: int = 2400) -> float:
    """The correlation of the two at the best shift: an encoder adds some silence at the start."""
    size = min(len(sound), len(reference)) - most_shift
    length = 2 ** int(np.ceil(np.log2(2 * (size + most_shift))))
    spectrum, other = np.fft.rfft(sound, length), np.fft.rfft(reference[:size], length)
    shift = int(np.argmax(np.fft.irfft(spectrum * np.conj(other), length)[:most_shift]))
    return float(np.corrcoef(sound[shift : shift + size], reference[:size])[0, 1])
