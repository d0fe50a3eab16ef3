"""Vocodes an utterance in chunks as its latents arrive, with any backend.

A sample depends only on a limited part of the vocoder's input (`reach` of its shape), so a chunk
that is computed with that context equals the same part of the whole utterance, up to rounding. All
speech uses this: whole audio is the joined stream, so it needs the memory of one chunk. The first
and last step are repeated beyond the ends of the utterance (`edge_steps`), to avoid clicks.
Importing this module does not import torch.
"""

import itertools
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any, Protocol

from xtts.model.shapes import CODE_RATE, VOCODER_RATE, AnyVocoderShape

# torch.Tensor with PyTorch, numpy.ndarray with ONNX Runtime: `[samples]`, one `[width]`, and others.
BackendArray = Any
Samples = BackendArray
Latents = BackendArray

# Steps are `hop` samples apart, first at 22,050 Hz (as frames of a code), then at 24,000 Hz.
STEPS_PER_FRAME = VOCODER_RATE / CODE_RATE
# The first chunk is short, so that sound starts early, but long enough to cover the wait for the
# second. Each further chunk is longer by the factor.
FIRST_CHUNK_CODES, CHUNK_GROWTH, MAX_CHUNK_CODES = 8, 1.5, 64
# The lengths of windows in output samples. They are few, so that backends can reuse each.
WINDOW_SAMPLES = (16_384, 32_768, 49_152)
# Computed at once; a vocoder at XTTS-v2's size takes 40 MB per second of audio.
MAX_SAMPLES = 256_000


class StepVocoder(Protocol):
    """A vocoder of steps: `xtts.model.vocoder.Vocoder`, `extras.onnx.speech.vocoder.OnnxVocoder`.

    arrays: torch or numpy; widths: its preferred window widths in steps, if any; max_samples: the
    maximum number of samples at once.
    """

    shape: AnyVocoderShape
    max_samples: int

    @property
    def arrays(self) -> ModuleType: ...
    @property
    def widths(self) -> Sequence[int]: ...

    def window(
        self, latents: Sequence[Latents], left: int, right: int, speaker: BackendArray
    ) -> BackendArray:
        """The steps `[1, width, right - left]` of an utterance with these latents `[width]`; beyond
        its ends, the first and the last step are repeated."""

    def to_samples(self, steps: BackendArray, speaker: BackendArray) -> Samples:
        """Steps `[1, width, steps]` -> samples `[steps * hop]`."""


class ChunkedVocoder:
    """Computes the waveform of one utterance at a speed, in chunks.

    Another speed interpolates the latents, as Coqui's `speed` does; the pitch does not change.
    Equal to `torch.nn.functional.interpolate(mode="linear", scale_factor=1 / speed)` over the whole
    utterance, but takes the latents one by one.
    """

    def __init__(self, vocoder: StepVocoder, speaker: BackendArray, speed: float = 1.0) -> None:
        self._vocoder, self._shape, self._speaker = vocoder, vocoder.shape, speaker
        self._reach = vocoder.shape.reach
        self._speed = speed
        self._input_latents: list[Latents] = []
        # Interpolated at this speed.
        self._latents: list[Latents] = self._input_latents if speed == 1.0 else []
        self._spoken_steps = 0

    def add(self, latents: BackendArray) -> None:
        """Adds latents `[n, width]`."""
        self._input_latents.extend(latents)
        # A latent is interpolated between two inputs, so the right one must be known.
        while self._speed != 1.0 and int(self._next_position) + 1 < len(self._input_latents):
            self._interpolate()

    @property
    def _next_position(self) -> float:
        """The position of the next interpolated latent among the inputs."""
        return max(0.0, (len(self._latents) + 0.5) * self._speed - 0.5)

    def _interpolate(self) -> None:
        last = len(self._input_latents) - 1
        left = min(int(self._next_position), last)
        share = min(self._next_position, last) - left
        right = self._input_latents[min(left + 1, last)]
        self._latents.append(self._input_latents[left] * (1 - share) + right * share)

    def ready_codes(self) -> float:
        """The length of the samples that could be computed now, in codes."""
        num_ready = self._num_settled_steps - self._spoken_steps
        return max(0.0, num_ready / (self._shape.steps_per_code * STEPS_PER_FRAME))

    def speak(self) -> Iterator[Samples]:
        """Computes the new final samples `[n]`."""
        return self._vocode_up_to(self._num_settled_steps, self._num_steps)

    def rest(self) -> Iterator[Samples]:
        """Ends the input; computes the remaining samples in chunks of limited size. Call it
        once."""
        # At speed 1 nothing is missing.
        while self._input_latents and len(self._latents) < max(
            1, int(len(self._input_latents) / self._speed)
        ):
            self._interpolate()
        return self._vocode_up_to(self._num_steps, self._num_steps + self._shape.edge_steps)

    @property
    def _num_steps(self) -> int:
        return int(self._shape.steps_per_code * len(self._latents) * STEPS_PER_FRAME)

    @property
    def _num_settled_steps(self) -> int:
        return num_settled_steps(len(self._latents), self._shape) - self._reach

    def _vocode_up_to(self, end: int, available: int) -> Iterator[Samples]:
        """The samples that were not returned yet, up to step `end`. available: the number of steps
        that may be used as context."""
        max_steps = max(1, self._vocoder.max_samples // self._shape.hop)
        while self._spoken_steps < end:
            begin, self._spoken_steps = self._spoken_steps, min(end, self._spoken_steps + max_steps)
            yield self._vocode_between(begin, self._spoken_steps, available)

    def _vocode_between(self, begin: int, end: int, available: int) -> Samples:
        hop, vocoder, parts = self._shape.hop, self._vocoder, []
        # Counted from the first of the repeated steps before the utterance.
        edge = self._shape.edge_steps
        begin, end, available = (step + edge for step in (begin, end, available))
        windows = split_into_windows(begin, end, available, self._reach, vocoder.widths)
        first, last = windows[0][0], max(right for _, right, _ in windows)
        steps = vocoder.window(self._latents, first - edge, last - edge, self._speaker)
        for left, right, used_to in windows:
            sound = vocoder.to_samples(steps[:, :, left - first : right - first], self._speaker)
            parts.append(sound[(begin - left) * hop : (used_to - left) * hop])
            begin = used_to
        return vocoder.arrays.concatenate(parts)


def num_settled_steps(codes: int, shape: AnyVocoderShape) -> int:
    """The number of the vocoder's input steps that are final after `codes` latents."""
    # torch copies if the output has as many steps as the input; with a few more codes it
    # interpolates.
    if int(shape.steps_per_code * codes * STEPS_PER_FRAME) == shape.steps_per_code * codes:
        return 0
    # Linear interpolation reads the right neighbour, which the last latent still lacks.
    frames = shape.steps_per_code * codes - shape.steps_per_code // 2
    steps = int(frames * STEPS_PER_FRAME)
    while steps > 0 and int(max(0.0, (steps - 0.5) / STEPS_PER_FRAME - 0.5)) + 1 > frames - 1:
        steps -= 1
    return steps


def chunk_codes() -> Iterator[float]:
    """The number of codes in each chunk: few at first, so that a stream starts early, and soon
    more, so that chunks cost little more than all sound at once."""
    codes = float(FIRST_CHUNK_CODES)
    while True:
        yield codes
        codes = min(codes * CHUNK_GROWTH, MAX_CHUNK_CODES)


def num_first_steps(shape: AnyVocoderShape) -> int:
    """The number of steps of a stream's first chunk: a constant, and narrower than any window."""
    minimum = FIRST_CHUNK_CODES * shape.steps_per_code * STEPS_PER_FRAME + shape.reach
    return shape.edge_steps + next(
        steps for codes in itertools.count() if (steps := num_settled_steps(codes, shape)) >= minimum
    )


def split_into_windows(
    begin: int, end: int, available: int, reach: int, widths: Sequence[int]
) -> list[tuple[int, int, int]]:
    """Divides the steps from `begin` to `end` into windows: (first step, step after the last, step
    up to which its samples are used). available: the number of known steps.

    The windows have the given widths if enough steps are known. A backend that compiles for each
    width (with oneDNN this takes as long as computing it eight times) then does so only once."""
    fitting = [width for width in sorted(widths) if 2 * reach < width <= available]
    if not fitting:
        return [(max(0, begin - reach), min(available, end + reach), end)]
    windows = []
    while begin < end:
        needed = min(available, end + reach) - max(0, begin - reach)
        width = next((width for width in fitting if width >= needed), fitting[-1])
        left = min(max(0, begin - reach), available - width)
        right = left + width
        # At the end of the utterance, the right context is complete.
        begin = min(end, right if right == available else right - reach)
        windows.append((left, right, begin))
    return windows
