"""Where a piece is silent, and the times of words without the silence around them.

A head looks at a word's first sound while the silence before it is still spoken, so that a path
alone has the word begin there. The sound tells: what is quiet at either end of a word is not of it.
numpy only; torch's chunks on the CPU are read as arrays.
"""

from typing import Any

import numpy as np

from xtts.inference.alignment.guard import CODE_SECONDS
from xtts.model.shapes import VOCODER_RATE

Array = np.ndarray[Any, Any]

FRAME_SECONDS = 0.01
_FRAME = round(FRAME_SECONDS * VOCODER_RATE)
# Chosen on flite's recordings of the choosing texts (docs/guard.md). In dB under the loudest 10 ms:
# what words are freed from, and what speech is louder than.
SILENCE_DB, SPEECH_DB = 45.0, 35.0
# A recording's own noise is as good as silence: what is this near to the quietest frames, but never
# as loud as that.
ABOVE_NOISE_DB, LOUDEST_NOISE_DB = 8.0, 20.0
_QUIETEST = 0.05
# The guard was measured without them: then the vocoder clicked where its input begins and
# ends. It does no more (`EDGE_STEPS` in xtts/model/streaming_vocoder.py).
_CLICK = 5
# Shorter silence at the edge of a word may be a stop's closure.
SHORTEST_SILENCE = 0.06


class LoudnessLog:
    """How loud each 10 ms of a piece are; takes its sound in chunks and keeps none of it."""

    def __init__(self) -> None:
        self._powers: list[Array] = []
        self._rest = np.zeros(0, np.float32)

    def push(self, chunk: Any) -> None:
        """Takes sound `[samples]` at 24,000 Hz."""
        samples = np.concatenate((self._rest, np.asarray(chunk, np.float32)))
        whole = len(samples) // _FRAME * _FRAME
        frames = samples[:whole].reshape(-1, _FRAME)
        self._powers.append(np.einsum("ns,ns->n", frames, frames, dtype=np.float64))
        self._rest = samples[whole:]

    def clear(self) -> None:
        """Forgets everything."""
        self._powers, self._rest = [], np.zeros(0, np.float32)

    def loud(self, under: float = SILENCE_DB) -> Array:
        """`[frames]`: whether each 10 ms are louder than so many dB under the loudest, and than
        the noise; the first and last 50 ms never are."""
        powers = np.concatenate(self._powers) if self._powers else np.zeros(0)
        if not len(powers):
            return np.zeros(0, bool)
        levels = 10 * np.log10(np.maximum(powers, 1e-12) / max(powers.max(), 1e-12))
        noise = min(np.quantile(levels, _QUIETEST) + ABOVE_NOISE_DB, -LOUDEST_NOISE_DB)
        found: Array = levels > max(-under, noise)
        found[:_CLICK] = found[-_CLICK:] = False
        return found

    def loud_codes(self, count: int, speed: float = 1.0) -> Array | None:
        """`[count]`: whether half of each code's sound is loud speech; None where there is no
        sound."""
        loud = self.loud(SPEECH_DB)
        if not len(loud):
            return None
        edges = np.arange(count + 1) * CODE_SECONDS / (FRAME_SECONDS * speed)
        sums = np.concatenate(([0], np.cumsum(loud)))
        edges = np.minimum(np.round(edges).astype(int), len(loud))
        frames = np.maximum(np.diff(edges), 1)
        found: Array = np.diff(sums[edges]) >= 0.5 * frames
        return found


def without_silence(times: Array, spoken: Array, loud: Array, speed: float = 1.0) -> Array:
    """The times of positions, where each word begins and ends with its sound.

    Args:
        times: `[positions, 2]` in seconds at speed 1; they never go back.
        spoken: `[positions]`: which are said; a word is a row of them.
        loud: `[frames]` of `LoudnessLog.loud`.
        speed: At which the sound was spoken.

    Returns:
        As `times`, within them: what is silent all along keeps its times.
    """
    found = np.array(times, np.float64)
    frame = FRAME_SECONDS * speed
    edges = np.flatnonzero(np.diff(np.concatenate(([0], np.asarray(spoken, np.int8), [0]))))
    for first, behind in zip(edges[::2], edges[1::2], strict=True):
        begin, end = found[first, 0], found[behind - 1, 1]
        start = int(begin / frame)
        heard = np.flatnonzero(loud[start : int(np.ceil(end / frame))])
        if not len(heard):
            continue
        sounds_from, sounds_to = (start + heard[0]) * frame, (start + heard[-1] + 1) * frame
        if sounds_from - begin < SHORTEST_SILENCE:
            sounds_from = begin
        if end - sounds_to < SHORTEST_SILENCE:
            sounds_to = end
        found[first:behind] = found[first:behind].clip(sounds_from, sounds_to)
    return found
