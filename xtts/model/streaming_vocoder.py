"""The vocoder in chunks: finished samples as latents arrive.

A sample depends on the vocoder's input only so far to the left and right (`receptive_field`), so a
piece spoken with that much of its neighbours equals the same stretch of the whole, up to rounding.
Used for all that is spoken: the whole is the stream, joined, and its memory that of one chunk. The
first and last step are held on beyond the ends of the utterance (`EDGE_STEPS`), or it would end in
a tick.
"""

import logging
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from machine.devices.graph_capture import Capture, captures_on
from xtts.model.chunk_sizes import (
    EDGE_STEPS,
    STEPS_PER_FRAME,
    WINDOW_SAMPLES,
    chunk_codes,
    first_steps,
    receptive_field,
    settled_steps,
    windows,
)
from xtts.model.shapes import VocoderShape
from xtts.model.vocoder import Vocoder, plans_each_width

log = logging.getLogger(__name__)

__all__ = ["ChunkedVocoder", "chunk_codes", "receptive_field", "settled_steps", "warm_up_widths"]

# A vocoder at XTTS-v2's size takes 40 MB for a second; a piece this long is spoken at once.
MOST_SAMPLES = 256_000


class ChunkedVocoder:
    """Speaks one utterance chunk by chunk; joined, its chunks are the whole waveform."""

    def __init__(self, vocoder: Vocoder, shape: VocoderShape, speaker: Tensor) -> None:
        self.vocoder = vocoder
        self.shape = shape
        self.speaker = speaker
        self.reach = receptive_field(shape)
        self._widths = vocoder_widths(vocoder, shape)
        self._latents: list[Tensor] = []
        self._codes = 0
        self._spoken_steps = 0
        self._edges = (EDGE_STEPS, 0)

    def add(self, latents: Tensor) -> None:
        """Takes more latents `[n, width]`."""
        self._latents.append(latents)
        self._codes += len(latents)

    def ready_codes(self) -> float:
        """How many codes' worth of samples could be spoken now."""
        ahead = settled_steps(self._codes, self.shape) - self.reach - self._spoken_steps
        return max(0.0, ahead / (self.shape.steps_per_code * STEPS_PER_FRAME))

    @torch.inference_mode()
    def speak(self) -> Iterator[Tensor]:
        """The samples `[n]` that are settled and not yet spoken."""
        yield self._to(settled_steps(self._codes, self.shape) - self.reach)

    @torch.inference_mode()
    def rest(self) -> Iterator[Tensor]:
        """All that is left when no more latents come, in chunks of bounded memory."""
        self._edges = (EDGE_STEPS, EDGE_STEPS)
        total = self._steps().shape[2] - 2 * EDGE_STEPS if self._codes else 0
        while self._spoken_steps < total:
            yield self._to(min(total, self._spoken_steps + MOST_SAMPLES // self.shape.hop))

    def _steps(self) -> Tensor:
        # Of all latents again: at most 2,600 steps are interpolated in a millisecond.
        steps = self.vocoder.steps(torch.cat(self._latents)[None])
        return F.pad(steps, self._edges, mode="replicate")

    def _to(self, end: int) -> Tensor:
        """The samples from where speaking stopped up to step `end`."""
        if end <= self._spoken_steps:
            return torch.zeros(0)
        begin, upto = self._spoken_steps + EDGE_STEPS, end + EDGE_STEPS
        steps, found = self._steps(), []
        for window in windows(begin, upto, steps.shape[2], self.reach, self._widths):
            sound = self.vocoder.sound(steps[:, :, window.left : window.right], self.speaker)[0]
            hop, left = self.shape.hop, window.left
            found.append(sound[(begin - left) * hop : (window.end - left) * hop])
            begin = window.end
        self._spoken_steps = end
        return torch.cat(found)


@torch.inference_mode()
def warm_up_widths(
    vocoder: Vocoder,
    shape: VocoderShape,
    speaker_width: int,
    capture: Capture | None = None,
    *,
    records: bool = True,
) -> None:
    """Has the code made for every width, and for a stream's first chunk, before the first word is
    spoken. capture: records each, on a GPU; by default as a CUDA graph, and not where `records` is
    off: what is recorded keeps its memory."""
    if not vocoder.in_windows:
        return
    if capture is None and records and plans_each_width(vocoder):
        capture = captures_on(next(vocoder.parameters()).device)
    if capture is not None:
        for width in (first_steps(shape), *vocoder_widths(vocoder, shape)):
            if reason := vocoder.record(width, speaker_width, capture):
                log.warning("The vocoder speaks without CUDA graphs, more slowly: %s", reason)
                break
        else:
            return
    weight = next(vocoder.parameters())
    for width in (first_steps(shape), *vocoder_widths(vocoder, shape)):
        speaker = weight.new_zeros(1, speaker_width, 1)
        vocoder.sound(weight.new_zeros(1, vocoder.width, width), speaker)


def vocoder_widths(vocoder: Vocoder, shape: VocoderShape) -> tuple[int, ...]:
    """Of the windows in which it speaks; as published, on a CPU, it has none."""
    return tuple(samples // shape.hop for samples in WINDOW_SAMPLES) if vocoder.in_windows else ()
