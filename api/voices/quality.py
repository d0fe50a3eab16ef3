"""What can be told of a recording before anybody speaks with it: noise, clipping, length.

Runs in the decoding child. A steady sound is refused: a voice that is made of a tone says nothing.
"""

from dataclasses import asdict, dataclass
from typing import Any, Literal

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


@dataclass(frozen=True)
class RecordingQuality:
    """The quality of a recording.

    Attributes:
        word: `good`, `usable` (there is a remark) or `poor` (it will be heard).
        remarks: Sentences: what is wrong, and what to do.
        speech_seconds: How long somebody speaks in it.
        snr_db: The loud frames over the quiet ones.
        level_db: Of the loud frames, 0 is full scale.
        clipped_share: Of the samples, those in rows at full scale, 0 to 1.
    """

    word: Literal["good", "usable", "poor"]
    remarks: tuple[str, ...]
    speech_seconds: float
    snr_db: float
    level_db: float
    clipped_share: float

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self) | {"remarks": list(self.remarks)}


def measure(mono: Array, rate: int) -> RecordingQuality:
    """The quality of samples `[n]` in -1..1. Raises ValueError for a steady sound."""
    levels = _levels_db(mono, rate)
    if levels.std() < _STEADY_DB or _tone_share(mono) > _TONE_SHARE:
        raise ValueError(
            "It holds a steady tone or noise, and no speech. Send 6 to 30 s of one person's speech."
        )
    loud, quiet = np.percentile(levels, 95), np.percentile(levels, 5)
    seconds = float((levels > loud - _SPEECH_DB).sum() * _FRAME_SECONDS)
    found = (seconds, float(loud - quiet), float(loud), _clipped(mono))
    remarks = _remarks(*found)
    poor = found[1] < POOR_SNR_DB or found[3] > POOR_CLIPPED
    word: Literal["good", "usable", "poor"] = "poor" if poor else "usable" if remarks else "good"
    return RecordingQuality(word, remarks, round(found[0], 2), round(found[1], 1),
                            round(found[2], 1), round(found[3], 5))  # fmt: skip


def _remarks(seconds: float, snr_db: float, level_db: float, clipped: float) -> tuple[str, ...]:
    found = []
    if seconds < GOOD_SECONDS:
        found.append(f"It has {seconds:.1f} s of speech; 6 to 30 s make a better voice.")
    if snr_db < GOOD_SNR_DB:
        found.append(
            f"The voice is {snr_db:.0f} dB over the noise; the noise is heard in what is spoken. "
            "Record in a quiet room, near the microphone."
        )
    if clipped > MOST_CLIPPED:
        found.append(f"{clipped:.1%} of it is clipped. Record it again, at a lower level.")
    if level_db < GOOD_LEVEL_DB:
        found.append(f"It is quiet ({level_db:.0f} dB). Record it again, nearer to the microphone.")
    return tuple(found)


def _levels_db(mono: Array, rate: int) -> Array:
    """Of each frame."""
    length = int(_FRAME_SECONDS * rate)
    frames = mono[: len(mono) // length * length].reshape(-1, length).astype(np.float64)
    found: Array = 10 * np.log10((frames**2).mean(axis=1) + 1e-10)
    return found


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
