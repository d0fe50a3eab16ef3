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
    """As `xtts.model.streaming_vocoder.StepVocoder`.

    Args:
        source: The session of `folder.SOURCE_FILE`, if the vocoder has an oscillator.
    """

    arrays: ModuleType = np
    widths = ()

    def __init__(
        self,
        session: "Session",
        shape: AnyVocoderShape,
        max_samples: int = MAX_SAMPLES,
        source: "Session | None" = None,
    ) -> None:
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
            # The phase of a step depends on all steps before it.
            feed = {"latents": self._interpolate(latents, np.arange(total), frames)}
            if len(self._source.get_inputs()) > 1:  # its pitch follows the speaker
                feed["speaker"] = speaker.astype(np.float32)
            excited: Array = self._source.run(None, feed)[0]
            return excited[:, :, steps]
        return self._interpolate(latents, steps, frames)

    def _interpolate(self, latents: Sequence[Array], steps: Array, frames: int) -> Array:
        """The latents at some steps `[1, width, steps]`; `frames` is the length of all latents after the
        first interpolation."""
        total = int(frames * STEPS_PER_FRAME)
        if total == frames:
            # With equal numbers of steps and frames, torch copies.
            low = high = steps
            share: Array = np.zeros(len(steps))
        else:
            low, high, share = _neighbours(steps, STEPS_PER_FRAME, frames)
        near_frames = self._interpolate_codes(latents, int(low[0]), int(high[-1]) + 1)
        mixed = _mix(near_frames[low - low[0]], near_frames[high - low[0]], share)
        return np.ascontiguousarray(mixed.T[None])

    def _interpolate_codes(self, latents: Sequence[Array], left: int, right: int) -> Array:
        """The frames `[right - left, width]` after the first interpolation."""
        per_code = self.shape.steps_per_code
        if per_code == 1:
            return np.stack(latents[left:right])
        low, high, share = _neighbours(np.arange(left, right), float(per_code), len(latents))
        codes = np.stack(latents[int(low[0]) : int(high[-1]) + 1])
        return _mix(codes[low - low[0]], codes[high - low[0]], share)


def _mix(near: Array, far: Array, share: Array) -> Array:
    """Interpolates between two rows; share 0 returns `near`."""
    share = share.astype(np.float32)[:, None]
    mixed: Array = near * (1 - share) + far * share
    return mixed


def _neighbours(outputs: Array, scale: float, length: int) -> tuple[Array, Array, Array]:
    """For each output index, the indices of the two of `length` inputs around it, and its position
    between them, from 0 to 1."""
    positions = np.maximum((outputs + 0.5) / scale - 0.5, 0.0)
    low = np.minimum(positions.astype(np.int64), length - 1)
    return low, np.minimum(low + 1, length - 1), positions - low
