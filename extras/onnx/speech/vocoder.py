"""The ONNX vocoder: its interpolation and its session."""

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from xtts.model.shapes import AnyVocoderShape
from xtts.model.streaming_vocoder import MAX_SAMPLES, STEPS_PER_FRAME

if TYPE_CHECKING:
    from extras.common.onnxruntime.types import Session

Array = np.ndarray


class OnnxVocoder:
    """As `xtts.model.streaming_vocoder.StepVocoder`."""

    arrays: ModuleType = np
    widths = ()

    def __init__(
        self,
        session: "Session",
        shape: AnyVocoderShape,
        max_samples: int = MAX_SAMPLES,
        source: "Session | None" = None,
    ) -> None:
        """source: the session of `folder.SOURCE`, if the vocoder has an oscillator."""
        self.shape, self.max_samples = shape, max_samples
        self._session, self._source = session, source

    def to_samples(self, steps: Array, speaker: Array) -> Array:
        """As in `StepVocoder`."""
        feed = {"steps": np.ascontiguousarray(steps), "speaker": speaker.astype(np.float32)}
        samples: Array = self._session.run(None, feed)[0][0]
        return samples

    def window(self, latents: Sequence[Array], left: int, right: int, speaker: Array) -> Array:
        """As in `StepVocoder`. Interpolates twice, as `torch.nn.functional.interpolate` does with
        `mode="linear"`."""
        frames = self.shape.steps_per_code * len(latents)
        total = int(frames * STEPS_PER_FRAME)
        steps = np.arange(left, right).clip(0, total - 1)
        if self._source is not None:
            # The phase of a step depends on all before it.
            whole = self._interpolated(latents, np.arange(total), frames)
            feed = {"latents": whole}
            if len(self._source.get_inputs()) > 1:  # its pitch follows the speaker
                feed["speaker"] = speaker.astype(np.float32)
            excited: Array = self._source.run(None, feed)[0]
            return excited[:, :, steps]
        return self._interpolated(latents, steps, frames)

    def _interpolated(self, latents: Sequence[Array], steps: Array, frames: int) -> Array:
        """The latents at some steps `[1, width, steps]`; frames: the number of all of them after
        the first interpolation."""
        total = int(frames * STEPS_PER_FRAME)
        if total == frames:
            # With equal numbers of steps and frames, torch copies.
            low = high = steps
            share: Array = np.zeros(len(steps))
        else:
            low, high, share = _between(steps, STEPS_PER_FRAME, frames)
        seen = self._frames(latents, int(low[0]), int(high[-1]) + 1)
        return np.ascontiguousarray(_mix(seen[low - low[0]], seen[high - low[0]], share).T[None])

    def _frames(self, latents: Sequence[Array], left: int, right: int) -> Array:
        """The frames `[right - left, width]` after the first interpolation."""
        per_code = self.shape.steps_per_code
        if per_code == 1:
            return np.stack(latents[left:right])
        low, high, share = _between(np.arange(left, right), float(per_code), len(latents))
        codes = np.stack(latents[int(low[0]) : int(high[-1]) + 1])
        return _mix(codes[low - low[0]], codes[high - low[0]], share)


def _mix(near: Array, far: Array, share: Array) -> Array:
    """Interpolates between two rows; share 0 returns `near`."""
    share = share.astype(np.float32)[:, None]
    mixed: Array = near * (1 - share) + far * share
    return mixed


def _between(places: Array, scale: float, length: int) -> tuple[Array, Array, Array]:
    """For each place, the indices of the two of `length` values around it, and its position between
    them."""
    places = np.maximum((places + 0.5) / scale - 0.5, 0.0)
    low = np.minimum(places.astype(np.int64), length - 1)
    return low, np.minimum(low + 1, length - 1), places - low
