"""The vocoder in chunks: final samples as latents arrive, with any backend.

A sample depends on the vocoder's input only so far to the left and right (`receptive_field`), so a
piece spoken with that much of its neighbours equals the same stretch of the whole, up to rounding.
Used for all that is spoken: the whole is the stream, joined, and its memory that of one chunk. The
first and last step are held on beyond the ends of the utterance (`EDGE_STEPS`), or it would end in
a tick. Importing this module imports no torch.
"""

import itertools
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any, Protocol

from xtts.model.shapes import CODE_RATE, VOCODER_RATE, VocoderShape

# Steps stand `hop` samples apart at 22,050 Hz while they are frames of a code, then at 24,000 Hz.
STEPS_PER_FRAME = VOCODER_RATE / CODE_RATE
# Codes of the first chunks: half a second is soon there, and covers the wait for the next.
FIRST_CODES, GROWTH, MOST_CODES = 8, 1.5, 64
# Samples that come out of a window of the vocoder's input: few widths, each used again and again.
WINDOW_SAMPLES = (16_384, 32_768, 49_152)
# A vocoder at XTTS-v2's size takes 40 MB for a second; a piece this long is spoken at once.
MOST_SAMPLES = 256_000
# So many copies of an utterance's first and last step go around it into the vocoder, and their
# sound is dropped. Without them its convolutions read zeros there, which are no latent that it ever
# learned: 20 ms of noise at -34 dBFS behind silence at -70. What zeros behind four steps still
# change is -69 dBFS at the most on the embedded voice (-61 behind three, -80 behind six; each step
# takes the vocoder as long as any other).
EDGE_STEPS = 4


class StepVocoder(Protocol):
    """What speaks steps: `xtts.model.vocoder.Vocoder`, `xtts.onnx.speech.vocoder.OnnxVocoder`.

    arrays: torch or numpy; widths: of the windows in which it speaks best, if any; most_samples:
    what it speaks at once.
    """

    shape: VocoderShape
    most_samples: int

    @property
    def arrays(self) -> ModuleType: ...
    @property
    def widths(self) -> Sequence[int]: ...

    def window(self, latents: Sequence[Any], left: int, right: int) -> Any:
        """Steps `[1, width, right - left]` of the utterance with these latents `[width]`; beyond
        its ends the first and the last."""

    def spoken(self, steps: Any, speaker: Any) -> Any:
        """Steps `[1, width, steps]` -> samples `[steps * hop]`."""


class SpeedChange:
    """The latents of one utterance at another speed; speed 1 passes them on, bit for bit.

    Interpolates them, as Coqui's `speed` does: the pitch stays, since a latent says what is spoken,
    not for how long. Equal to `torch.nn.functional.interpolate(mode="linear", scale_factor=1 /
    speed)` over the whole, but taking latents as they come.
    """

    def __init__(self, speed: float) -> None:
        self.speed = speed
        self._kept: list[Any] = []
        self._made = 0

    def add(self, latent: Any) -> list[Any]:
        """Takes one latent `[width]`; returns those that are final now."""
        if self.speed == 1.0:
            return [latent]
        self._kept.append(latent)
        ready = self._made
        # Latent i lies between two of the given ones; the right one must be there.
        while int(self._place(ready)) + 1 < len(self._kept):
            ready += 1
        return self._take(ready)

    def rest(self) -> list[Any]:
        """What is left when no more latents come."""
        if self.speed == 1.0 or not self._kept:
            return []
        return self._take(max(1, int(len(self._kept) / self.speed)))

    def _place(self, number: int) -> float:
        """Where latent `number` lies among the given ones."""
        return max(0.0, (number + 0.5) * self.speed - 0.5)

    def _take(self, end: int) -> list[Any]:
        last, taken = len(self._kept) - 1, []
        for number in range(self._made, end):
            place = self._place(number)
            left = min(int(place), last)
            share = min(place, last) - left
            right = self._kept[min(left + 1, last)]
            taken.append(self._kept[left] * (1 - share) + right * share)
        self._made = max(self._made, end)
        return taken


class ChunkedVocoder:
    """Speaks one utterance at a speed, chunk by chunk; joined, these are the whole waveform."""

    def __init__(self, vocoder: StepVocoder, speaker: Any, speed: float = 1.0) -> None:
        self._tempo = SpeedChange(speed)
        self._vocoder, self._shape, self._speaker = vocoder, vocoder.shape, speaker
        self._reach = receptive_field(vocoder.shape)
        self._latents: list[Any] = []
        self._spoken_steps = 0

    def add(self, latents: Any) -> None:
        """Takes more latents `[n, width]`."""
        for latent in latents:
            self._latents.extend(self._tempo.add(latent))

    def ready_codes(self) -> float:
        """How many codes' worth of samples could be spoken now."""
        ahead = self._settled - self._spoken_steps
        return max(0.0, ahead / (self._shape.steps_per_code * STEPS_PER_FRAME))

    def speak(self) -> Iterator[Any]:
        """The samples `[n]` that no later latent can change and that are not yet spoken."""
        return self._up_to(self._settled, self._total)

    def rest(self) -> Iterator[Any]:
        """All that is left when no more latents come, in chunks of bounded memory; once."""
        self._latents.extend(self._tempo.rest())
        return self._up_to(self._total, self._total + EDGE_STEPS)

    @property
    def _total(self) -> int:
        return int(self._shape.steps_per_code * len(self._latents) * STEPS_PER_FRAME)

    @property
    def _settled(self) -> int:
        return settled_steps(len(self._latents), self._shape) - self._reach

    def _up_to(self, end: int, known: int) -> Iterator[Any]:
        """The samples from where speaking stopped up to step `end`, where those before `known` may
        be looked at."""
        most = max(1, self._vocoder.most_samples // self._shape.hop)
        while self._spoken_steps < end:
            begin, self._spoken_steps = self._spoken_steps, min(end, self._spoken_steps + most)
            yield self._between(begin, self._spoken_steps, known)

    def _between(self, begin: int, end: int, known: int) -> Any:
        hop, vocoder, parts = self._shape.hop, self._vocoder, []
        # Counted from the first of the steps that go around the utterance.
        at, upto, available = (step + EDGE_STEPS for step in (begin, end, known))
        spans = windows(at, upto, available, self._reach, vocoder.widths)
        first, last = spans[0][0], max(right for _, right, _ in spans)
        steps = vocoder.window(self._latents, first - EDGE_STEPS, last - EDGE_STEPS)
        for left, right, spoken in spans:
            sound = vocoder.spoken(steps[:, :, left - first : right - first], self._speaker)
            parts.append(sound[(at - left) * hop : (spoken - left) * hop])
            at = spoken
        return vocoder.arrays.concatenate(parts)


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


def windows(
    begin: int, end: int, available: int, reach: int, widths: Sequence[int]
) -> list[tuple[int, int, int]]:
    """How steps `begin` to `end` are spoken where `there` of them are known: of each window the
    first step, the one behind the last, and the one up to which it settles what is spoken.

    In windows of those widths wherever so much is known: whatever makes code for each width (oneDNN
    takes as long as for speaking it eight times) then makes it once and not for each sentence."""
    fitting = [width for width in sorted(widths) if 2 * reach < width <= available]
    if not fitting:
        return [(max(0, begin - reach), min(available, end + reach), end)]
    spans = []
    while begin < end:
        needed = min(available, end + reach) - max(0, begin - reach)
        width = next((width for width in fitting if width >= needed), fitting[-1])
        left = min(max(0, begin - reach), available - width)
        right = left + width
        # At the true end nothing is missing on the right.
        begin = min(end, right if right == available else right - reach)
        spans.append((left, right, begin))
    return spans
