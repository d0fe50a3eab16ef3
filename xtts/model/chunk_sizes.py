"""Chunk sizes of streaming: receptive field of the vocoder, first and later chunks.

Plain numbers, for whatever computes the sound.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from xtts.model.shapes import CODE_RATE, VOCODER_RATE, VocoderShape

# Steps stand `hop` samples apart at 22,050 Hz while they are frames of a code, then at 24,000 Hz.
STEPS_PER_FRAME = VOCODER_RATE / CODE_RATE
# Codes of the first chunks: half a second is soon there, and covers the wait for the next.
FIRST_CODES, GROWTH, MOST_CODES = 8, 1.5, 64
# Samples that come out of a window of the vocoder's input: few widths, each used again and again.
WINDOW_SAMPLES = (16_384, 32_768, 49_152)
# So many copies of an utterance's first and last step go around it into the vocoder, and their
# sound is dropped. Without them its convolutions read zeros there, which are no latent that it ever
# learned: 20 ms of noise at -34 dBFS behind silence at -70. What zeros behind four steps still
# change is -69 dBFS at the most on the embedded voice (-61 behind three, -80 behind six; each step
# takes the vocoder as long as any other).
EDGE_STEPS = 4


def receptive_field(shape: VocoderShape) -> int:
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


def chunk_codes() -> Iterator[float]:
    """How many codes to wait for before each chunk: few at first, soon more, so that a stream
    starts early and then costs little more than the whole."""
    codes = float(FIRST_CODES)
    while True:
        yield codes
        codes = min(codes * GROWTH, MOST_CODES)


def first_steps(shape: VocoderShape) -> int:
    """How many steps the first chunk of a stream is made of: always the same, and narrower than
    any window."""
    wanted = FIRST_CODES * shape.steps_per_code * STEPS_PER_FRAME + receptive_field(shape)
    return EDGE_STEPS + next(
        steps for codes in itertools.count() if (steps := settled_steps(codes, shape)) >= wanted
    )


class Window(NamedTuple):
    """Input steps `left` to `right` settle what is to be spoken up to step `end`."""

    left: int
    right: int
    end: int


def windows(begin: int, end: int, there: int, reach: int, widths: Sequence[int]) -> list[Window]:
    """How steps `begin` to `end` are spoken where `there` of them are known, in windows of those
    widths wherever so much is known: whatever makes code for each width (oneDNN takes as long as
    for speaking it eight times) then makes it once and not for each sentence."""
    fitting = [width for width in sorted(widths) if 2 * reach < width <= there]
    if not fitting:
        return [Window(max(0, begin - reach), min(there, end + reach), end)]
    found = []
    while begin < end:
        needed = min(there, end + reach) - max(0, begin - reach)
        width = next((width for width in fitting if width >= needed), fitting[-1])
        left = min(max(0, begin - reach), there - width)
        right = left + width
        # At the true end nothing is missing on the right.
        begin = min(end, right if right == there else right - reach)
        found.append(Window(left, right, begin))
    return found
