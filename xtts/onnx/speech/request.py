"""One synthesis request with ONNX Runtime: codes, chunks, fades, speed.

Speaking whole, in a stream and among others are the same steps. No torch.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from machine.devices.cuda_errors import NotFinite
from xtts.model.chunk_sizes import chunk_codes
from xtts.model.shapes import FADE_SECONDS, PLACEHOLDER_ID, VOCODER_RATE, SamplingParams
from xtts.onnx.speech.loading import OnnxLatents, OnnxModel
from xtts.onnx.speech.sampling import sample
from xtts.onnx.speech.vocoder import OnnxChunks
from xtts.text.tokenizer import Piece

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class OnnxSynthesisParams:
    """How it is spoken. rules: None is the model's own; max_codes: the most that a piece may take;
    chunked: in chunks as soon as they can be, else piece by piece; pieces: of the text, where it
    was read already."""

    rules: SamplingParams | None = None
    seed: int = 0
    speed: float = 1.0
    max_codes: int | None = None
    chunked: bool = True
    pieces: Sequence[Piece] | None = None


class OnnxSynthesisRequest:
    """Raises TextError when it is made from text that cannot be spoken."""

    def __init__(
        self,
        model: OnnxModel,
        voice: OnnxLatents,
        text: str,
        language: str,
        manner: OnnxSynthesisParams,
    ) -> None:
        self._model, self._voice, self._manner = model, voice, manner
        self._rules = manner.rules or model.config.decoding
        self._random = np.random.default_rng(manner.seed % 2**64)  # none below 0
        if manner.pieces is None:
            self._pieces = model.tokenizer.split(text, language)
        else:
            self._pieces = list(manner.pieces)
        pauses = any(piece.before or piece.after for piece in self._pieces)
        self._faded = pauses or len(self._pieces) > 1
        self._after = 0.0
        self._piece: _Piece | None = None
        self.codes = 0
        self.cut_pieces = 0

    @property
    def done(self) -> bool:
        """Whether every piece was spoken."""
        return self._piece is None and not self._pieces

    @property
    def paused(self) -> bool:
        """Whether it stands between two pieces; `step` begins the next."""
        return self._piece is None and bool(self._pieces)

    def step(self) -> list[Array]:
        """Says one more code; returns the sound that is settled then, float32 at 24,000 Hz.

        Raises NotFinite when the model says what is no number.
        """
        if self._piece is None:
            self._piece = _Piece(self._model, self._voice, self._rules, self._manner)
            text = self._pieces.pop(0)
            self._after = text.after
            found = [_silence(text.before)]
            found += self._piece.begin(text.ids, self._random, self._faded)
        else:
            found = self._piece.step(self._random)
        if self._piece.done:
            found += [*self._piece.end(), _silence(self._after)]
            self.codes += len(self._piece.said)
            self.cut_pieces += not self._piece.stopped
            self._piece = None
        return [chunk for chunk in found if len(chunk)]

    def chunks(self) -> Iterator[Array]:
        """All of it, as it comes."""
        while not self.done:
            yield from self.step()


class _Piece:
    """One piece of text: its decoding, its tempo, its chunks, its fades."""

    def __init__(
        self,
        model: OnnxModel,
        voice: OnnxLatents,
        rules: SamplingParams,
        manner: OnnxSynthesisParams,
    ) -> None:
        shape = model.config.gpt
        self._model, self._voice, self._rules = model, voice, rules
        self._limit = min(manner.max_codes or shape.max_codes, shape.max_codes)
        self._seen = np.zeros(shape.audio_ids, bool)
        self._seen[[PLACEHOLDER_ID, shape.audio_start]] = True
        self.stopped = False
        self.said: list[int] = []
        self._tempo = OnnxSpeedChange(manner.speed)
        self._vocoder = OnnxChunks(model.vocoder, voice.speaker, model.most_samples)
        self._sizes = chunk_codes() if manner.chunked else iter(lambda: float("inf"), None)
        self._wanted = next(self._sizes)
        self._fade: OnnxStreamFade | None = None

    @property
    def done(self) -> bool:
        return self.stopped or len(self.said) >= self._limit

    def begin(self, ids: list[int], random: np.random.Generator, faded: bool) -> list[Array]:
        self._fade = OnnxStreamFade() if faded else None
        self._past, latent, logits = self._model.gpt.begin(self._voice.latents, ids)
        return self._take(latent, logits, random)

    def step(self, random: np.random.Generator) -> list[Array]:
        latent, logits = self._model.gpt.step(self.said[-1], len(self.said), self._past)
        return self._take(latent, logits, random)

    def _take(self, latent: Array, logits: Array, random: np.random.Generator) -> list[Array]:
        code = sample(logits, self._seen, self._rules, random)
        self.stopped = code == self._model.config.gpt.audio_stop
        if not self.stopped:
            self.said.append(code)
            self._seen[code] = True
        self._vocoder.add(self._tempo.add(latent))
        if self._vocoder.ready_codes() < self._wanted:
            return []
        self._wanted = next(self._sizes)
        return [self._pushed(chunk) for chunk in self._vocoder.speak()]

    def end(self) -> list[Array]:
        rest = self._tempo.rest()
        if len(rest):
            self._vocoder.add(rest)
        found = [self._pushed(chunk) for chunk in self._vocoder.rest()]
        return found if self._fade is None else [*found, self._fade.end()]

    def _pushed(self, chunk: Array) -> Array:
        if not np.isfinite(chunk).all():
            raise NotFinite(
                "The vocoder's waveform is not finite: this device computes wrongly or the voice's "
                "files are damaged. Export the voice again, or use BACKEND=torch."
            )
        return chunk if self._fade is None else self._fade.push(chunk)


class OnnxSpeedChange:
    """As `xtts.inference.speed.SpeedChange`: the latents of an utterance at another speed, as they
    come."""

    def __init__(self, speed: float) -> None:
        self.speed = speed
        self._kept: list[Array] = []
        self._made = 0

    def add(self, latent: Array) -> Array:
        """Takes one latent `[width]`; returns those that are settled now, `[n, width]`."""
        if self.speed == 1.0:
            return latent[None]
        self._kept.append(latent)
        ready = self._made
        while int(self._place(ready)) + 1 < len(self._kept):
            ready += 1
        return self._take(ready)

    def rest(self) -> Array:
        """What is left when no more latents come, `[n, width]`."""
        if self.speed == 1.0 or not self._kept:
            return np.zeros((0, 0), np.float32)
        return self._take(max(1, int(len(self._kept) / self.speed)))

    def _place(self, number: int) -> float:
        return max(0.0, (number + 0.5) * self.speed - 0.5)

    def _take(self, end: int) -> Array:
        last, found = len(self._kept) - 1, []
        for number in range(self._made, end):
            place = self._place(number)
            left = min(int(place), last)
            share = np.float32(min(place, last) - left)
            found.append(self._kept[left] * (1 - share) + self._kept[min(left + 1, last)] * share)
        self._made = max(self._made, end)
        return np.stack(found) if found else np.zeros((0, len(self._kept[0])), np.float32)


class OnnxStreamFade:
    """As `xtts.inference.fading.StreamFade`: 5 ms at both ends of a piece, of chunks that are
    pushed."""

    def __init__(self) -> None:
        self._length = int(FADE_SECONDS * VOCODER_RATE)
        self._held = np.zeros(0, np.float32)
        self._begun = False

    def push(self, chunk: Array) -> Array:
        """What can be said; the last 5 ms are held back."""
        self._held = np.concatenate((self._held, chunk))
        if len(self._held) <= 2 * self._length:
            return np.zeros(0, np.float32)
        said, self._held = self._held[: -self._length].copy(), self._held[-self._length :].copy()
        if not self._begun:
            said[: self._length] *= _ramp(self._length)
            self._begun = True
        return said

    def end(self) -> Array:
        """The held end of the piece, faded out."""
        length = min(self._length, len(self._held) // 2)
        if self._begun:
            length = self._length
        else:
            self._held[:length] *= _ramp(length)
        self._held[len(self._held) - length :] *= _ramp(length)[::-1]
        return self._held


def _silence(seconds: float) -> Array:
    """A pause in samples; speed does not change it."""
    return np.zeros(round(seconds * VOCODER_RATE), np.float32)


def _ramp(length: int) -> Array:
    return np.linspace(0.0, 1.0, length, dtype=np.float32)


def speak(
    model: OnnxModel,
    voice: OnnxLatents,
    text: str,
    language: str,
    manner: OnnxSynthesisParams = OnnxSynthesisParams(),
) -> Array:
    """Speaks `text`: a waveform `[samples]` in float32 at 24,000 Hz, as
    `xtts.inference.synthesis.synthesize`."""
    whole = replace(manner, chunked=False)
    return np.concatenate(list(OnnxSynthesisRequest(model, voice, text, language, whole).chunks()))


def stream(
    model: OnnxModel,
    voice: OnnxLatents,
    text: str,
    language: str,
    manner: OnnxSynthesisParams = OnnxSynthesisParams(),
) -> Iterator[Array]:
    """As `speak`, in chunks as soon as they can be spoken."""
    yield from OnnxSynthesisRequest(model, voice, text, language, manner).chunks()
