"""The samples of a recording: WAV files in memory, resampling, and quality.

Quality is the amount of speech, its level, noise and clipping. All functions are pure.
"""

import io
import math
import wave
from typing import Any

import numpy as np

from machine.storage.files import JsonObject
from xtts.encoding import pcm16, wav_header
from xtts.speech_span import HOP_SECONDS, frame_levels, speech_start

Array = np.ndarray[Any, Any]

# The standard deviation of frame levels is above 6 dB for speech, above 1 dB for speech in loud
# noise, and 0.5 dB for noise alone.
_MIN_LEVEL_STD_DB = 1.0
# A beep of constant pitch has nearly all its energy within this bandwidth.
_TONE_HZ = 129.0
# The share of the energy that makes a sound a tone.
_TONE_SHARE = 0.97
_TONE_WINDOW_SECONDS = 0.093
# From the first speech on, XTTS-v2 uses 30 s of a recording, and other models use less.
_HEARD_SECONDS = 30.0
# Frames at most this far below the loud ones are speech.
_SPEECH_DB = 25.0
# A recording with less speech gets a remark.
GOOD_SECONDS = 5.0
# One with a lower ratio of speech to noise gets a remark.
GOOD_SNR_DB = 25.0
# One with a lower level, relative to full scale, gets a remark.
GOOD_LEVEL_DB = -35.0
# One with a larger share of clipped samples gets a remark.
MAX_CLIPPED = 0.001
# One with a lower ratio of speech to noise is poor.
POOR_SNR_DB = 12.0
# One with a larger share of clipped samples is poor.
POOR_CLIPPED = 0.01
# A sample of this magnitude may be clipped.
_FULL_SCALE = 0.999
_FULL_SCALE_PCM = 32_767
_PADDING_SECONDS = 0.1


def wav_of(samples: Array, rate: int) -> bytes:
    """Samples `[n]`, clipped to -1..1, as a WAV file of 16-bit mono PCM, as voices are stored."""
    pcm = pcm16(samples)
    return wav_header(len(pcm), rate) + pcm


def read_wav(data: bytes) -> tuple[Array, int]:
    """Samples `[n]` of a file from `wav_of`, float32, -1..1, and their rate. `wav_of` makes the
    same bytes from them."""
    with wave.open(io.BytesIO(data)) as file:
        pcm = np.frombuffer(file.readframes(file.getnframes()), "<i2")
        return pcm.astype(np.float32) / _FULL_SCALE_PCM, file.getframerate()


def resampled(samples: Array, rate: int, new_rate: int) -> Array:
    """Samples `[n]` at another rate, by one FFT; frequencies that both rates hold do not change."""
    if rate == new_rate:
        return samples
    # A length that both rates can represent in whole samples.
    block = rate // math.gcd(rate, new_rate)
    # Pad with silence: the FFT treats its input as periodic.
    padding = int(_PADDING_SECONDS * rate)
    padded_length = math.ceil((len(samples) + padding) / block) * block
    resampled_length = padded_length * new_rate // rate
    spectrum = np.fft.rfft(np.pad(samples, (0, padded_length - len(samples))))
    padded = np.fft.irfft(spectrum, resampled_length) * (resampled_length / padded_length)
    return padded[: len(samples) * new_rate // rate].astype(np.float32)


def measure(mono: Array, rate: int) -> JsonObject:
    """The quality of the part of a recording that models use, as the fields of
    `api.schemas.VoiceQuality`. The level is that of the loud frames; the SNR is their distance to
    the quiet ones.

    Args:
        mono: Samples `[n]` in -1..1.
        rate: Samples per second.

    Raises ValueError for a steady sound.
    """
    start = speech_start(frame_levels(mono, rate), rate)
    mono = mono[start : start + int(_HEARD_SECONDS * rate)]
    levels = frame_levels(mono, rate)
    if levels.std() < _MIN_LEVEL_STD_DB or _tone_share(mono, rate) > _TONE_SHARE:
        raise ValueError(
            "It holds a steady tone or noise, and no speech. Send 6 to 30 s of one person's speech."
        )
    loud, quiet = np.percentile(levels, 95), np.percentile(levels, 5)
    seconds = float((levels > loud - _SPEECH_DB).sum() * HOP_SECONDS)
    snr_db, level_db, clipped_share = float(loud - quiet), float(loud), _clipped_share(mono)
    remarks = remarks_of(seconds, snr_db, level_db, clipped_share)
    is_poor = snr_db < POOR_SNR_DB or clipped_share > POOR_CLIPPED
    return {
        "word": "poor" if is_poor else "usable" if remarks else "good",
        "remarks": remarks,
        "speech_seconds": round(seconds, 2),
        "snr_db": round(snr_db, 1),
        "level_db": round(level_db, 1),
        "clipped_share": round(clipped_share, 5),
    }


def remarks_of(seconds: float, snr_db: float, level_db: float, clipped_share: float) -> list[str]:
    """The faults of a recording and what to do about them, from the figures of `measure`."""
    remarks = []
    if seconds < GOOD_SECONDS:
        remarks.append(f"It has {seconds:.1f} s of speech; 6 to 30 s make a better voice.")
    if snr_db < GOOD_SNR_DB:
        remarks.append(
            f"The voice is {snr_db:.0f} dB over the noise; the speech will have this noise too. "
            "Record in a quiet room, close to the microphone."
        )
    if clipped_share > MAX_CLIPPED:
        remarks.append(f"{clipped_share:.1%} of it is clipped. Record it again at a lower level.")
    if level_db < GOOD_LEVEL_DB:
        remarks.append(f"It is quiet ({level_db:.0f} dB). Record it again, closer to the microphone.")
    return remarks


def _tone_share(mono: Array, rate: int) -> float:
    """The share of the energy in the few strongest bins of the mean spectrum."""
    size = int(_TONE_WINDOW_SECONDS * rate)
    power = np.zeros(size // 2 + 1)
    for frame in mono[: len(mono) // size * size].reshape(-1, size):
        power += np.abs(np.fft.rfft(frame * np.hanning(size))) ** 2
    bins = round(_TONE_HZ * _TONE_WINDOW_SECONDS)
    return float(np.sort(power)[-bins:].sum() / max(power.sum(), 1e-12))


def _clipped_share(mono: Array) -> float:
    """The share of samples in runs of three or more at full scale; a single peak may be genuine."""
    is_full = np.abs(mono) >= _FULL_SCALE
    is_in_run = is_full[:-2] & is_full[1:-1] & is_full[2:]
    return float(is_in_run.mean()) if len(is_in_run) else 0.0
