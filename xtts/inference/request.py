"""One synthesis request in the batcher: pieces, decoding state, chunks of sound.

The same as `xtts.inference.synthesis.stream`, turned round: there the sound is pulled, here each
step of the crowd pushes a latent in, and what is settled comes out.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from xtts.inference.alignment.guarded_piece import Guard, GuardedPiece, SpokenPiece
from xtts.inference.batched_decoding import DecodingSlots
from xtts.inference.decoding import DecodingState
from xtts.inference.fading import StreamFade
from xtts.inference.speed import SpeedChange
from xtts.inference.synthesis import check_finite, has_edges, judge_utterance, silence
from xtts.inference.synthesis_params import SynthesisParams
from xtts.inference.voice import Voice
from xtts.model.loading import Model
from xtts.model.streaming_vocoder import ChunkedVocoder, chunk_codes


class SynthesisRequest:
    """Raises TextError when it is made from text that cannot be spoken."""

    def __init__(
        self, model: Model, voice: Voice, ask: SynthesisParams, guard: Guard | None = None
    ) -> None:
        self.model = model
        self.voice = voice
        self.ask = ask
        self._rules = ask.rules(model.config.decoding)
        self._generator = torch.Generator(model.device).manual_seed(ask.seed)
        self._pieces = ask.read(model.tokenizer)
        self._faded = has_edges(self._pieces)
        self._guard = guard
        self._begun = 0
        self.codes = 0
        self.cut_pieces = 0
        self.slot: int | None = None

    def enter(self, slots: DecodingSlots) -> None:
        """Begins the next piece."""
        self._piece = self._pieces.pop(0)
        self._pause = self._piece.before
        self._guarded = GuardedPiece(
            self._guard, self._piece.ids, torch, whole=self.ask.whole, speed=self.ask.speed,
            first=self._begun == 0,
        )  # fmt: skip
        self._begun += 1
        self._fade = StreamFade(torch) if self._faded else None
        self._attempt(slots, self._generator)

    def _attempt(self, slots: DecodingSlots, generator: torch.Generator) -> None:
        """Begins an utterance of the piece."""
        ids = torch.tensor(self._piece.ids, device=self.model.device)
        self._utterance = DecodingState(
            self.model.gpt, self._rules, generator, self.ask.max_codes, self._guarded.heads
        )
        self._new_sound()
        self.slot = slots.enter(self.voice.latents, ids, self._utterance)

    def _new_sound(self) -> None:
        self._taken = 0
        self._tempo = SpeedChange(self.ask.speed, torch)
        self._vocoder = ChunkedVocoder(
            self.model.vocoder, self.model.config.vocoder, self.voice.speaker
        )
        self._sizes = chunk_codes()
        self._wanted = next(self._sizes)

    @torch.inference_mode()
    def take(self, slots: DecodingSlots) -> list[Tensor]:
        """The sound that is settled after a step, as float32 on the CPU; gives the slot back when
        the piece is done. Raises DecodingError when the model's output is not finite."""
        if self._utterance.error is not None:
            raise self._utterance.error
        found = [silence(self._pause)]
        self._pause = 0.0
        found += self._sound(self._utterance.latents[self._taken :])
        self._taken = len(self._utterance.latents)
        if self._utterance.done:
            found += self._ended(slots)
        return [chunk for chunk in found if len(chunk)]

    def _sound(self, latents: Sequence[Tensor]) -> list[Tensor]:
        found = []
        for latent in latents:
            self._vocoder.add(self._tempo.add(latent))
            if self._vocoder.ready_codes() >= self._wanted:
                found.append(self._pushed(self._vocoder.speak()))
                self._wanted = next(self._sizes)
        return found

    def leave(self, slots: DecodingSlots) -> None:
        """Gives the slot back, said or not."""
        if self.slot is not None:
            slots.leave(self.slot)
            self.slot = None

    @property
    def done(self) -> bool:
        """Whether every piece was spoken."""
        return self.slot is None and not self._pieces

    @property
    def paused(self) -> bool:
        """Whether it stands between two pieces; `enter` begins the next."""
        return self.slot is None and bool(self._pieces)

    @property
    def pieces(self) -> tuple[SpokenPiece, ...]:
        """What became of each piece that is spoken; () without a guard."""
        return tuple(self._guard.pieces) if self._guard else ()

    def _ended(self, slots: DecodingSlots) -> list[Tensor]:
        self.codes += len(self._utterance.codes)
        self.leave(slots)
        found = self._last_sound()
        if judge_utterance(self._guarded, self._utterance):
            seed = self._guarded.next_seed
            self._attempt(slots, torch.Generator(self.model.device).manual_seed(seed))
            return []
        stopped = self._utterance.stopped
        if self._guarded.spoken_anew:
            stopped = self._guarded.best.stopped
            self._guarded.forget_sound()
            self._new_sound()
            found = [*self._sound(self._guarded.best.kept), *self._last_sound()]
        self.cut_pieces += not stopped and not self._guarded.cut_off
        if (held := self._guarded.end()) is not None:
            found.append(held if self._fade is None else self._fade.push(held))
        if self._fade is not None:
            found.append(self._fade.end())
        return [*found, silence(self._piece.after)]

    def _last_sound(self) -> list[Tensor]:
        """What is left of the sound of an utterance that is over."""
        rest = self._tempo.rest()
        if len(rest):
            self._vocoder.add(rest)
        return [self._pushed(chunk) for chunk in self._vocoder.rest()]

    def _pushed(self, chunk: Tensor) -> Tensor:
        chunk = self._guarded.push(check_finite(chunk))
        return chunk if self._fade is None else self._fade.push(chunk)
