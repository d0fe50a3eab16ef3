"""The vocoder in pieces: latents in as the GPT makes them, finished samples out.

A sample depends on the vocoder's input only so far to the left and right (`reach`), so a piece
spoken with that much of its neighbours equals the same stretch of the whole, up to rounding. Used
by streams, and by every long piece of text, whose memory stays that of one chunk.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from xtts.sizes import VocoderShape
from xtts.vocoder import STEPS_PER_FRAME, Vocoder

# Codes of the first chunks: half a second is soon there, and covers the wait for the next.
FIRST_CODES, GROWTH, MOST_CODES = 8, 1.5, 64
# A vocoder at XTTS-v2's size takes 40 MB for a second; a piece this long is spoken at once.
MOST_SAMPLES = 256_000


def reach(shape: VocoderShape) -> int:
    """How many input steps to the left and to the right a sample depends on, at the most."""
    samples = 3  # the last convolution, 7 wide
    rates = zip(reversed(shape.upsample_rates), reversed(shape.upsample_kernel_sizes), strict=True)
    for rate, kernel in rates:
        samples += max(
            _resblock_reach(shape, size, dilations)
            for size, dilations in zip(
                shape.resblock_kernel_sizes, shape.resblock_dilation_sizes, strict=True
            )
        )
        samples = -(-(samples + kernel) // rate)
    return samples + 3  # the first convolution, 7 wide


def _resblock_reach(shape: VocoderShape, kernel: int, dilations: tuple[int, ...]) -> int:
    # Type 1 has an undilated convolution behind each dilated one (HiFi-GAN, appendix A.1).
    plain = len(dilations) if shape.resblock_type == "1" else 0
    return (kernel - 1) // 2 * (sum(dilations) + plain)


def settled_steps(codes: int, shape: VocoderShape) -> int:
    """How many of the vocoder's input steps no later latent can change, of `codes` latents."""
    # torch copies where it would make no step more; with a few codes more it interpolates.
    if int(shape.steps_per_code * codes * STEPS_PER_FRAME) == shape.steps_per_code * codes:
        return 0
    # Linear interpolation reads the neighbour to the right; behind the last there is none yet.
    frames = shape.steps_per_code * codes - shape.steps_per_code // 2
    steps = int(frames * STEPS_PER_FRAME)
    while steps > 0 and int(max(0.0, (steps - 0.5) / STEPS_PER_FRAME - 0.5)) + 1 > frames - 1:
        steps -= 1
    return steps


class ChunkedVocoder:
    """Speaks one utterance chunk by chunk; joined, its chunks are the whole waveform."""

    def __init__(self, vocoder: Vocoder, shape: VocoderShape, speaker: Tensor) -> None:
        self.vocoder = vocoder
        self.shape = shape
        self.speaker = speaker
        self.reach = reach(shape)
        self._latents: list[Tensor] = []
        self._codes = 0
        self._spoken_steps = 0

    def add(self, latents: Tensor) -> None:
        """Takes more latents `[n, width]`."""
        self._latents.append(latents)
        self._codes += len(latents)

    def ready_codes(self) -> float:
        """How many codes' worth of samples could be spoken now."""
        ahead = settled_steps(self._codes, self.shape) - self.reach - self._spoken_steps
        return max(0.0, ahead / (self.shape.steps_per_code * STEPS_PER_FRAME))

    def speak(self) -> Tensor:
        """The samples `[n]` that are settled and not yet spoken."""
        return self._to(settled_steps(self._codes, self.shape) - self.reach)

    def rest(self) -> Iterator[Tensor]:
        """All that is left when no more latents come, in chunks of bounded memory."""
        total = self._total()
        while self._spoken_steps < total:
            yield self._to(min(total, self._spoken_steps + MOST_SAMPLES // self.shape.hop))

    def _total(self) -> int:
        return self._steps().shape[2] if self._codes else 0

    def _steps(self) -> Tensor:
        # Of all latents anew: at most 2,600 steps are interpolated in a millisecond.
        return self.vocoder.steps(torch.cat(self._latents)[None])

    def _to(self, end: int) -> Tensor:
        """The samples from where speaking stopped up to step `end`."""
        begin = self._spoken_steps
        if end <= begin:
            return torch.zeros(0)
        steps = self._steps()
        left, right = max(0, begin - self.reach), min(steps.shape[2], end + self.reach)
        sound = self.vocoder.sound(steps[:, :, left:right], self.speaker)[0]
        self._spoken_steps = end
        return sound[(begin - left) * self.shape.hop : (end - left) * self.shape.hop]


def chunk_codes() -> Iterator[float]:
    """How many codes to wait for before each chunk: few at first, soon more, so that a stream
    starts early and then costs little more than the whole."""
    codes = float(FIRST_CODES)
    while True:
        yield codes
        codes = min(codes * GROWTH, MOST_CODES)
