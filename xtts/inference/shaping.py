"""Speaking speed, and fades of 5 ms at the ends of a piece, so that joined pieces do not click.

One body for torch and numpy: the functions that it calls have one name and one meaning in both.
"""

from types import ModuleType
from typing import Any

from xtts.inference.defaults import FADE_SECONDS
from xtts.model.shapes import VOCODER_RATE

# torch.Tensor or numpy.ndarray: `[samples]` in float32, and `[width]` or `[n, width]`.
Samples = Any
Latents = Any


class SpeedChange:
    """The latents of one utterance at another speed; speed 1 passes them on, bit for bit.

    Interpolates them, as Coqui's `speed` does: the pitch stays, since a latent says what is spoken,
    not for how long. Equal to `torch.nn.functional.interpolate(mode="linear", scale_factor=1 /
    speed)` over the whole, but taking latents as they come.
    """

    def __init__(self, speed: float, arrays: ModuleType) -> None:
        self.speed = speed
        self._arrays = arrays
        self._kept: list[Latents] = []
        self._made = 0

    def add(self, latent: Latents) -> Latents:
        """Takes one latent `[width]`; returns those that are final now, `[n, width]`."""
        if self.speed == 1.0:
            return latent[None]
        self._kept.append(latent)
        ready = self._made
        # Latent i lies between two of the given ones; the right one must be there.
        while int(self._place(ready)) + 1 < len(self._kept):
            ready += 1
        return self._take(ready)

    def rest(self) -> Latents:
        """What is left when no more latents come, `[n, width]`; n may be 0."""
        if self.speed == 1.0 or not self._kept:
            return self._arrays.zeros((0, 0))
        return self._take(max(1, int(len(self._kept) / self.speed)))

    def _place(self, number: int) -> float:
        """Where latent `number` lies among the given ones."""
        return max(0.0, (number + 0.5) * self.speed - 0.5)

    def _take(self, end: int) -> Latents:
        last, found = len(self._kept) - 1, []
        for number in range(self._made, end):
            place = self._place(number)
            left = min(int(place), last)
            share = min(place, last) - left
            right = self._kept[min(left + 1, last)]
            found.append(self._kept[left] * (1 - share) + right * share)
        self._made = max(self._made, end)
        return self._arrays.stack(found) if found else self._kept[0][None][:0]


def fade_out(waveform: Samples, arrays: ModuleType) -> Samples:
    """The waveform `[samples]` with its last 5 ms faded, or less of a shorter one."""
    length = min(int(FADE_SECONDS * VOCODER_RATE), len(waveform))
    ramp = arrays.flip(arrays.linspace(0.0, 1.0, length, dtype=arrays.float32), (0,))
    return arrays.concatenate(
        (waveform[: len(waveform) - length], waveform[len(waveform) - length :] * ramp)
    )


class StreamFade:
    """Fades the first and the last 5 ms of a waveform that is pushed in chunks: the last 5 ms are
    held back until the end."""

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
