"""The ONNX vocoder in chunks.

As `xtts.model.streaming_vocoder`: a piece spoken with its neighbours equals the same stretch of the
whole, so memory is that of one chunk.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from xtts.model.chunk_sizes import EDGE_STEPS, STEPS_PER_FRAME, receptive_field, settled_steps
from xtts.model.shapes import VocoderShape

Array = np.ndarray[Any, Any]
MOST_SAMPLES = 256_000


class OnnxVocoder:
    """A session of the vocoder."""

    def __init__(self, session: Any, shape: VocoderShape) -> None:
        self.shape = shape
        self._session = session

    def sound(self, steps: Array, speaker: Array) -> Array:
        """Steps `[width, steps]`, speaker `[1, 512, 1]` -> samples `[steps * hop]`."""
        feed = {"steps": np.ascontiguousarray(steps[None]), "speaker": speaker}
        found: Array = self._session.run(None, feed)[0][0]
        return found


class OnnxChunks:
    """Speaks one utterance chunk by chunk; joined, its chunks are the whole waveform."""

    def __init__(
        self, vocoder: OnnxVocoder, speaker: Array, most_samples: int = MOST_SAMPLES
    ) -> None:
        self._vocoder = vocoder
        self._shape = vocoder.shape
        self._speaker = speaker.astype(np.float32)
        self._most_steps = max(1, most_samples // self._shape.hop)
        self._reach = receptive_field(self._shape)
        self._latents: list[Array] = []
        self._spoken_steps = 0

    def add(self, latents: Array) -> None:
        """Takes more latents `[n, width]`."""
        self._latents.extend(latents)

    def ready_codes(self) -> float:
        """How many codes' worth of samples could be spoken now."""
        ahead = self._settled() - self._spoken_steps
        return max(0.0, ahead / (self._shape.steps_per_code * STEPS_PER_FRAME))

    def speak(self) -> Iterator[Array]:
        """The samples that are settled and not yet spoken."""
        return self._up_to(self._settled())

    def rest(self) -> Iterator[Array]:
        """All that is left when no more latents come."""
        return self._up_to(self._total())

    def _total(self) -> int:
        return int(self._shape.steps_per_code * len(self._latents) * STEPS_PER_FRAME)

    def _settled(self) -> int:
        return settled_steps(len(self._latents), self._shape) - self._reach

    def _up_to(self, end: int) -> Iterator[Array]:
        while self._spoken_steps < end:
            yield self._to(min(end, self._spoken_steps + self._most_steps))

    def _to(self, end: int) -> Array:
        begin, hop = self._spoken_steps, self._shape.hop
        left = max(-EDGE_STEPS, begin - self._reach)
        right = min(self._total() + EDGE_STEPS, end + self._reach)
        sound = self._vocoder.sound(self._steps(left, right), self._speaker)
        self._spoken_steps = end
        return sound[(begin - left) * hop : (end - left) * hop]

    def _steps(self, left: int, right: int) -> Array:
        """The vocoder's input steps `[width, right - left]` of the whole utterance: twice
        interpolated, as `torch.nn.functional.interpolate(mode="linear")` does it; beyond the ends
        the first and the last."""
        frames, total = self._shape.steps_per_code * len(self._latents), self._total()
        steps = np.arange(left, right).clip(0, total - 1)
        if total == frames:
            # So few that there would be no step more: torch copies.
            low = high = steps
            share: Array = np.zeros(right - left)
        else:
            low, high, share = _between(steps, STEPS_PER_FRAME, frames)
        seen = self._frames(int(low[0]), int(high[-1]) + 1)
        return _mixed(seen[low - low[0]], seen[high - low[0]], share).T

    def _frames(self, left: int, right: int) -> Array:
        """The frames `[right - left, width]` between codes and steps."""
        per_code = self._shape.steps_per_code
        if per_code == 1:
            return np.stack(self._latents[left:right])
        low, high, share = _between(np.arange(left, right), float(per_code), len(self._latents))
        codes = np.stack(self._latents[int(low[0]) : int(high[-1]) + 1])
        return _mixed(codes[low - low[0]], codes[high - low[0]], share)


def _mixed(near: Array, far: Array, share: Array) -> Array:
    """Rows between two others: share 0 is the near one."""
    share = share.astype(np.float32)[:, None]
    found: Array = near * (1 - share) + far * share
    return found


def _between(places: Array, scale: float, length: int) -> tuple[Array, Array, Array]:
    """Between which two of `length` values each of these places lies, and how far along."""
    places = np.maximum((places + 0.5) / scale - 0.5, 0.0)
    low = np.minimum(places.astype(np.int64), length - 1)
    return low, np.minimum(low + 1, length - 1), places - low
