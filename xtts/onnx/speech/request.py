"""One synthesis request with ONNX Runtime: codes, chunks, fades, speed.

Speaking whole, in a stream and among others are the same steps. No torch.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from machine.devices.cuda_errors import NotFinite
from xtts.inference.alignment.guarded_piece import Guard, GuardedPiece, SpokenPiece
from xtts.inference.fading import StreamFade
from xtts.inference.speed import SpeedChange
from xtts.model.chunk_sizes import chunk_codes
from xtts.model.config import SamplingParams
from xtts.model.shapes import NUM_LATENTS, PLACEHOLDER_ID, VOCODER_RATE
from xtts.onnx.speech.loading import OnnxLatents, OnnxModel
from xtts.onnx.speech.sampling import sample
from xtts.onnx.speech.vocoder import OnnxChunks
from xtts.text.tokenizer import Piece

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class OnnxSynthesisParams:
    """How it is spoken. rules: None is the model's own; max_codes: the most that a piece may take;
    chunked: in chunks as soon as they can be, else piece by piece; pieces: of the text, where it
    was read already; whole: nothing is heard before a piece has its verdict, so that it can be
    spoken again; guard: of this speech, None for none."""

    rules: SamplingParams | None = None
    seed: int = 0
    speed: float = 1.0
    max_codes: int | None = None
    chunked: bool = True
    pieces: Sequence[Piece] | None = None
    whole: bool = False
    guard: Guard | None = None


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
        self._several = pauses or len(self._pieces) > 1
        self._after = 0.0
        self._piece: _Piece | None = None
        self._begun = 0
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
            self._fade = StreamFade(np) if self._several else None
            text = self._pieces.pop(0)
            before, self._after = text.before, text.after
            found = self._attempt(self._new_guard(text.ids), self._random)
        else:
            before, found = 0.0, self._piece.step()
        while self._piece is not None and self._piece.done:
            found += self._ended(self._piece)
        said = [ready for chunk in found if len(ready := self._faded(chunk))] + self._fade_end()
        after = self._after if self._piece is None else 0.0
        return [chunk for chunk in (_silence(before), *said, _silence(after)) if len(chunk)]

    @property
    def pieces(self) -> tuple[SpokenPiece, ...]:
        """What became of each piece that is spoken; () without a guard."""
        return tuple(self._manner.guard.pieces) if self._manner.guard else ()

    def _new_guard(self, ids: list[int]) -> GuardedPiece:
        manner, self._begun = self._manner, self._begun + 1
        return GuardedPiece(
            manner.guard, ids, np, whole=manner.whole or not manner.chunked, speed=manner.speed,
            first=self._begun == 1,
        )  # fmt: skip

    def _attempt(self, guarded: GuardedPiece, random: np.random.Generator) -> list[Array]:
        self._piece = _Piece(self._model, self._voice, self._rules, self._manner, guarded, random)
        return self._piece.begin()

    def _ended(self, piece: "_Piece") -> list[Array]:
        """What is left of an utterance that is over, or the begin of the next attempt."""
        self.codes += len(piece.said)
        last = piece.last_sound()
        if piece.judge():
            return self._attempt(piece.guarded, np.random.default_rng(piece.guarded.next_seed))
        found, stopped = [*last, *piece.end()], piece.stopped
        if piece.guarded.spoken_anew:
            stopped = piece.guarded.best.stopped
        self.cut_pieces += not stopped and not piece.guarded.cut_off
        self._piece = None
        return found

    def _faded(self, chunk: Array) -> Array:
        found: Array = chunk if self._fade is None else self._fade.push(chunk)
        return found

    def _fade_end(self) -> list[Array]:
        """The faded end of a piece, where one has just ended."""
        if self._piece is not None or self._fade is None:
            return []
        fade, self._fade = self._fade, None
        return [rest] if len(rest := fade.end()) else []

    def chunks(self) -> Iterator[Array]:
        """All of it, as it comes."""
        while not self.done:
            yield from self.step()


class _Piece:
    """One utterance of a piece of text: its decoding, its tempo, its chunks."""

    def __init__(
        self,
        model: OnnxModel,
        voice: OnnxLatents,
        rules: SamplingParams,
        manner: OnnxSynthesisParams,
        guarded: GuardedPiece,
        random: np.random.Generator,
    ) -> None:
        shape = model.config.gpt
        self._model, self._voice, self._rules = model, voice, rules
        self._manner, self._random = manner, random
        self._limit = min(manner.max_codes or shape.max_codes, shape.max_codes)
        self._seen = np.zeros(shape.audio_ids, bool)
        self._seen[[PLACEHOLDER_ID, shape.audio_start]] = True
        self.guarded = guarded
        self.stopped = False
        self.said: list[int] = []
        self._latents: list[Array] = []
        self._new_sound()

    def _new_sound(self) -> None:
        self._tempo = SpeedChange(self._manner.speed, np)
        self._vocoder = OnnxChunks(
            self._model.vocoder, self._voice.speaker, self._model.most_samples
        )
        chunked = self._manner.chunked
        self._sizes = chunk_codes() if chunked else iter(lambda: float("inf"), None)
        self._wanted = next(self._sizes)

    @property
    def done(self) -> bool:
        return self.stopped or len(self.said) >= self._limit

    def begin(self) -> list[Array]:
        self._past, latent, logits = self._model.gpt.begin(self._voice.latents, self.guarded.ids)
        return self._take(latent, logits)

    def step(self) -> list[Array]:
        latent, logits = self._model.gpt.step(self.said[-1], len(self.said), self._past)
        return self._take(latent, logits)

    def judge(self) -> bool:
        """As `GuardedPiece.judge`."""
        told, seen = self._past.num_queries == len(self._latents), None
        if self.guarded.heads and told:
            stop = NUM_LATENTS + len(self.guarded.ids) + 2
            seen = np.mean(list(self._past.attention(self.guarded.heads, stop).values()), axis=0)
        return self.guarded.judge(self.said, self._latents, stopped=self.stopped, attention=seen)

    def end(self) -> list[Array]:
        """What waited for the verdict, of the best attempt."""
        found: list[Array] = []
        if self.guarded.spoken_anew:
            self.guarded.forget_sound()
            self._new_sound()
            for latent in self.guarded.best.kept:
                found += self._sound(latent)
            found += self.last_sound()
        held = self.guarded.end()
        return found if held is None else [*found, held]

    def last_sound(self) -> list[Array]:
        """What is left of the sound of an utterance that is over."""
        rest = self._tempo.rest()
        if len(rest):
            self._vocoder.add(rest)
        return [self._pushed(chunk) for chunk in self._vocoder.rest()]

    def _take(self, latent: Array, logits: Array) -> list[Array]:
        code = sample(logits, self._seen, self._rules, self._random)
        self.stopped = code == self._model.config.gpt.audio_stop
        if not self.stopped:
            self.said.append(code)
            self._seen[code] = True
        self._latents.append(latent)
        return self._sound(latent)

    def _sound(self, latent: Array) -> list[Array]:
        self._vocoder.add(self._tempo.add(latent))
        if self._vocoder.ready_codes() < self._wanted:
            return []
        self._wanted = next(self._sizes)
        return [self._pushed(chunk) for chunk in self._vocoder.speak()]

    def _pushed(self, chunk: Array) -> Array:
        if not np.isfinite(chunk).all():
            raise NotFinite(
                "The vocoder's waveform is not finite: this device computes wrongly or the voice's "
                "files are damaged. Export the voice again, or use BACKEND=torch."
            )
        found: Array = self.guarded.push(chunk)
        return found


def _silence(seconds: float) -> Array:
    """A pause in samples; speed does not change it."""
    return np.zeros(round(seconds * VOCODER_RATE), np.float32)


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
