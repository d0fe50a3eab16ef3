"""5 ms fades at the ends of a piece, so that joined pieces do not click.

One body for torch and numpy: the functions that it calls have one name and one meaning in both.
"""

from collections.abc import Iterator
from types import ModuleType
from typing import Any

from xtts.model.shapes import FADE_SECONDS, VOCODER_RATE

Samples = Any  # torch.Tensor or numpy.ndarray, `[samples]` in float32


def fade_edges(waveform: Samples, arrays: ModuleType) -> Samples:
    """The waveform `[samples]` with its first and last 5 ms faded. arrays: torch or numpy."""
    return arrays.concatenate(list(fade_stream_edges(iter((waveform,)), arrays)))


def fade_stream_edges(chunks: Iterator[Samples], arrays: ModuleType) -> Iterator[Samples]:
    """As `fade_edges`, of a waveform that comes in chunks."""
    fade = StreamFade(arrays)
    for chunk in chunks:
        if len(ready := fade.push(chunk)):
            yield ready
    yield fade.end()


def fade_out(waveform: Samples, arrays: ModuleType) -> Samples:
    """The waveform `[samples]` with its last 5 ms faded, or less of a shorter one."""
    length = min(int(FADE_SECONDS * VOCODER_RATE), len(waveform))
    ramp = arrays.flip(arrays.linspace(0.0, 1.0, length, dtype=arrays.float32), (0,))
    return arrays.concatenate(
        (waveform[: len(waveform) - length], waveform[len(waveform) - length :] * ramp)
    )


class StreamFade:
    """As `fade_stream_edges`, of chunks that are pushed: the last 5 ms are held back until the
    end."""

    def __init__(self, arrays: ModuleType) -> None:
        self._arrays = arrays
        self._length = int(FADE_SECONDS * VOCODER_RATE)
        self._held = arrays.zeros(0, dtype=arrays.float32)
        self._begun = False

    def push(self, chunk: Samples) -> Samples:
        """What is final by now."""
        self._held = self._arrays.concatenate((self._held, chunk))
        # The fade in needs its 5 ms as well, and in a short piece both are shorter.
        if len(self._held) <= 2 * self._length:
            return self._held[:0]
        ready, self._held = self._held[: -self._length], self._held[-self._length :]
        if not self._begun:
            ready = self._faded(ready, self._length, 0)
            self._begun = True
        return ready

    def end(self) -> Samples:
        """The held end of the piece, faded out."""
        if self._begun:
            return self._faded(self._held, 0, self._length)
        length = min(self._length, len(self._held) // 2)
        return self._faded(self._held, length, length)

    def _faded(self, sound: Samples, rising: int, falling: int) -> Samples:
        """Faded in over so many samples, and out over so many."""
        end = len(sound) - falling
        parts = (
            sound[:rising] * self._ramp(rising),
            sound[rising:end],
            sound[end:] * self._arrays.flip(self._ramp(falling), (0,)),
        )
        return self._arrays.concatenate(parts)

    def _ramp(self, length: int) -> Samples:
        return self._arrays.linspace(0.0, 1.0, length, dtype=self._arrays.float32)
