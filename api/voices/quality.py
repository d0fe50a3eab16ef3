"""Measures the quality of a recording: how much speech, its level, noise and clipping.

All functions are pure.
"""

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_FRAME_SECONDS = 0.02
# Speech has pauses and syllables: the level of its frames scatters by more than 6 dB, and by more
# than 1 in much noise; that of noise alone by 0.5.
_STEADY_DB = 1.0
# A beep, of one pitch in all its length: nearly all energy in a dozen bins of 1,025.
_TONE_BINS, _TONE_SHARE, _WINDOW = 12, 0.97, 2_048
# Frames within this of the loud ones are speech.
_SPEECH_DB = 25.0
# Below these a remark is made: s of speech, dB over the noise, dB of full scale; above: a share.
GOOD_SECONDS, GOOD_SNR_DB, GOOD_LEVEL_DB, MOST_CLIPPED = 5.0, 25.0, -35.0, 0.001
POOR_SNR_DB, POOR_CLIPPED = 12.0, 0.01
_FULL = 0.999


def measure(mono: Array, rate: int) -> dict[str, Any]:
    """The quality of samples `[n]` in -1..1, as `api.schemas.VoiceQuality`: the level of
    the loud frames, and how far the quiet ones are below. Raises ValueError for a steady sound."""
    levels = _levels_db(mono, rate)
    if levels.std() < _STEADY_DB or _tone_share(mono) > _TONE_SHARE:
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


def _tone_share(mono: Array) -> float:
    """Of the energy, what is in the few strongest bins of the mean spectrum."""
    frames = mono[: len(mono) // _WINDOW * _WINDOW].reshape(-1, _WINDOW)
    power = np.zeros(_WINDOW // 2 + 1)
    for frame in frames:
        power += np.abs(np.fft.rfft(frame * np.hanning(_WINDOW))) ** 2
    return float(np.sort(power)[-_TONE_BINS:].sum() / max(power.sum(), 1e-12))


def _clipped(mono: Array) -> float:
    """Rows of three samples and more at full scale; a single peak may be there by right."""
    full = np.abs(mono) >= _FULL
    inside = full[:-2] & full[1:-1] & full[2:]
    return float(inside.mean()) if len(inside) else 0.0
