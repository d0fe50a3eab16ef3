"""One synthesis request with ONNX Runtime: codes, chunks, fades, speed.

Speaking whole, in a stream and among others are the same steps. No torch.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from machine.devices.cuda_errors import NotFinite
from xtts.inference.fading import StreamFade
from xtts.inference.speed import SpeedChange
from xtts.model.chunk_sizes import chunk_codes
from xtts.model.config import SamplingParams
from xtts.model.shapes import PLACEHOLDER_ID
from xtts.onnx.speech.loading import OnnxLatents, OnnxModel
from xtts.onnx.speech.sampling import sample
from xtts.onnx.speech.vocoder import OnnxChunks

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class OnnxSynthesisParams:
    """How it is spoken. rules: None is the model's own; max_codes: the most that a piece may take;
    chunked: in chunks as soon as they can be, else piece by piece; pieces: the text's ids, where it
    was read already."""

    rules: SamplingParams | None = None
    seed: int = 0
    speed: float = 1.0
    max_codes: int | None = None
    chunked: bool = True
    pieces: Sequence[Sequence[int]] | None = None


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
            self._pieces = [piece.ids for piece in model.tokenizer.split(text, language)]
        else:
            self._pieces = [list(ids) for ids in manner.pieces]
        self._several = len(self._pieces) > 1
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

        Raises NotFinite when the model's output is not finite.
        """
        if self._piece is None:
            self._piece = _Piece(self._model, self._voice, self._rules, self._manner)
            found = self._piece.begin(self._pieces.pop(0), self._random, self._several)
        else:
            found = self._piece.step(self._random)
        if self._piece.done:
            found += self._piece.end()
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
        self._tempo = SpeedChange(manner.speed, np)
        self._vocoder = OnnxChunks(model.vocoder, voice.speaker, model.most_samples)
        self._sizes = chunk_codes() if manner.chunked else iter(lambda: float("inf"), None)
        self._wanted = next(self._sizes)
        self._fade: StreamFade | None = None

    @property
    def done(self) -> bool:
        return self.stopped or len(self.said) >= self._limit

    def begin(self, ids: list[int], random: np.random.Generator, several: bool) -> list[Array]:
        self._fade = StreamFade(np) if several else None
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
