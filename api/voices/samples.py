"""Samples of a recording: as WAV files in memory, at another rate, and their quality.

Quality is how much speech there is, its level, noise and clipping. All functions are pure.
"""

import io
import math
import wave
from typing import Any

import numpy as np

from xtts.speech_span import frame_levels, speech_start

Array = np.ndarray[Any, Any]

_FRAME_SECONDS = 0.02
# Speech has pauses and syllables: the level of its frames scatters by more than 6 dB, and by more
# than 1 in much noise; that of noise alone by 0.5.
_STEADY_DB = 1.0
# A beep, of one pitch in all its length: nearly all energy within 129 Hz.
_TONE_HZ, _TONE_SHARE, _WINDOW_SECONDS = 129.0, 0.97, 0.093
# From the first speech on, XTTS-v2 uses 30 s of a recording, and other models use less.
_HEARD_SECONDS = 30.0
# Frames within this of the loud ones are speech.
_SPEECH_DB = 25.0
# Below these a remark is made: s of speech, dB over the noise, dB of full scale; above: a share.
GOOD_SECONDS, GOOD_SNR_DB, GOOD_LEVEL_DB, MOST_CLIPPED = 5.0, 25.0, -35.0, 0.001
POOR_SNR_DB, POOR_CLIPPED = 12.0, 0.01
_FULL = 0.999
_FULL_PCM = 32_767
_RING_SECONDS = 0.1


def wav_of(samples: Array, rate: int) -> bytes:
    """A WAV file as voices are kept, 16-bit PCM and mono, of samples `[n]`; only -1..1 is kept."""
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((samples.clip(-1.0, 1.0) * _FULL_PCM).round().astype("<i2").tobytes())
    return out.getvalue()


def read_wav(data: bytes) -> tuple[Array, int]:
    """Samples `[n]` of such a file, float32, -1..1, and how many make a second; written again they
    are the same bytes."""
    with wave.open(io.BytesIO(data)) as file:
        pcm = np.frombuffer(file.readframes(file.getnframes()), "<i2")
        return pcm.astype(np.float32) / _FULL_PCM, file.getframerate()


def resampled(samples: Array, rate: int, to: int) -> Array:
    """`[n]` at another rate, by the FFT of the whole: what both rates hold stays as it is."""
    if rate == to:
        return samples
    step = rate // math.gcd(rate, to)
    # Pad with silence: the FFT treats its input as periodic.
    padding = int(_RING_SECONDS * rate)
    whole = -(-(len(samples) + padding) // step) * step
    count = whole * to // rate
    spectrum = np.fft.rfft(np.pad(samples, (0, whole - len(samples))))
    other = np.fft.irfft(spectrum, count) * (count / whole)
    found: Array = other[: len(samples) * to // rate].astype(np.float32)
    return found


def measure(mono: Array, rate: int) -> dict[str, Any]:
    """The quality of samples `[n]` in -1..1, as `api.schemas.VoiceQuality`: the level of the loud
    frames, and how far the quiet ones are below. It measures the part that models use. Raises
    ValueError for a steady sound."""
    start = speech_start(frame_levels(mono, rate), rate)
    mono = mono[start : start + int(_HEARD_SECONDS * rate)]
    levels = _levels_db(mono, rate)
    if levels.std() < _STEADY_DB or _tone_share(mono, rate) > _TONE_SHARE:
        raise ValueError(
            "It holds a steady tone or noise, and no speech. Send 6 to 30 s of one person's speech."
        )
    loud, quiet = np.percentile(levels, 95), np.percentile(levels, 5)
    seconds = float((levels > loud - _SPEECH_DB).sum() * _FRAME_SECONDS)
    quality = (seconds, float(loud - quiet), float(loud), _clipped(mono))
    remarks = remarks_of(*quality)
    poor = quality[1] < POOR_SNR_DB or quality[3] > POOR_CLIPPED
    return {
        "word": "poor" if poor else "usable" if remarks else "good",
        "remarks": remarks,
        "speech_seconds": round(quality[0], 2),
        "snr_db": round(quality[1], 1),
        "level_db": round(quality[2], 1),
        "clipped_share": round(quality[3], 5),
    }


def remarks_of(seconds: float, snr_db: float, level_db: float, clipped: float) -> list[str]:
    """What is wrong with a recording and what to do, by the figures of `measure`."""
    remarks = []
    if seconds < GOOD_SECONDS:
        remarks.append(f"It has {seconds:.1f} s of speech; 6 to 30 s make a better voice.")
    if snr_db < GOOD_SNR_DB:
        remarks.append(
            f"The voice is {snr_db:.0f} dB over the noise; the speech will have this noise too. "
            "Record in a quiet room, close to the microphone."
        )
    if clipped > MOST_CLIPPED:
        remarks.append(f"{clipped:.1%} of it is clipped. Record it again at a lower level.")
    if level_db < GOOD_LEVEL_DB:
        remarks.append(
            f"It is quiet ({level_db:.0f} dB). Record it again, closer to the microphone."
        )
    return remarks


def _levels_db(mono: Array, rate: int) -> Array:
    """Of each frame."""
    length = int(_FRAME_SECONDS * rate)
    frames = mono[: len(mono) // length * length].reshape(-1, length).astype(np.float64)
    levels: Array = 10 * np.log10((frames**2).mean(axis=1) + 1e-10)
    return levels


def _tone_share(mono: Array, rate: int) -> float:
    """The share of the energy in the few strongest bins of the mean spectrum."""
    size = int(_WINDOW_SECONDS * rate)
    power = np.zeros(size // 2 + 1)
    for frame in mono[: len(mono) // size * size].reshape(-1, size):
        power += np.abs(np.fft.rfft(frame * np.hanning(size))) ** 2
    bins = round(_TONE_HZ * _WINDOW_SECONDS)
    return float(np.sort(power)[-bins:].sum() / max(power.sum(), 1e-12))


def _clipped(mono: Array) -> float:
    """Rows of three samples and more at full scale; a single peak may be there by right."""
    full = np.abs(mono) >= _FULL
    inside = full[:-2] & full[1:-1] & full[2:]
    return float(inside.mean()) if len(inside) else 0.0
