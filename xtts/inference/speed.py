"""Speaking speed: interpolates the vocoder's latents, as Coqui's `speed` does.

The pitch stays: a latent says what is spoken, not for how long. Equal to
`torch.nn.functional.interpolate(mode="linear", scale_factor=1 / speed)` over the whole, but taking
latents as they come. One body for torch and numpy.
"""

from collections.abc import Iterator
from types import ModuleType
from typing import Any

Latents = Any  # torch.Tensor or numpy.ndarray


def change_speed(latents: Iterator[Latents], speed: float, arrays: ModuleType) -> Iterator[Latents]:
    """The latents `[width]` of one utterance at another speed, `[n, width]` each time.

    Args:
        arrays: torch or numpy.
    """
    change = SpeedChange(speed, arrays)
    for latent in latents:
        yield change.add(latent)
    if len(rest := change.rest()):
        yield rest


class SpeedChange:
    """The latents of one utterance at another speed; speed 1 passes them on, bit for bit."""

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
