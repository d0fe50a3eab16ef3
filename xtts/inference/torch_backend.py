"""Speech computed by PyTorch: alone, one utterance at a time, or in the slots of a batch."""

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from types import ModuleType

import torch
from torch import Tensor

from xtts.inference.batched_decoding import DecodingSlots
from xtts.inference.decoding import (
    DecodingError,
    DecodingResult,
    DecodingState,
    iterate_codes,
)
from xtts.inference.voice import Voice
from xtts.model.config import SamplingParams
from xtts.model.loading import Model
from xtts.model.streaming_vocoder import ChunkedVocoder


class TorchBackend:
    """One utterance at a time, as `xtts.inference.speech.Backend`."""

    arrays: ModuleType = torch
    count = 1

    def __init__(self, model: Model) -> None:
        self.model = model
        self._steps: Generator[DecodingState, None, None] | None = None

    @property
    def free(self) -> int:
        """As in `Backend`."""
        return 1

    def prepare(self) -> None:
        """As in `Backend`."""

    def random(self, seed: int) -> torch.Generator:
        """As in `Backend`."""
        return torch.Generator(self.model.device).manual_seed(seed)

    def begin(
        self, voice: Voice, ids: Sequence[int], rules: SamplingParams, random: torch.Generator,
        max_codes: int | None, heads: Sequence[tuple[int, int]],
    ) -> DecodingState:  # fmt: skip
        """As in `Backend`."""
        utterance = DecodingState(self.model.gpt, rules, random, max_codes, heads)
        self._start(voice, torch.tensor(ids, device=self.model.device), utterance)
        return utterance

    def _start(self, voice: Voice, text: Tensor, utterance: DecodingState) -> None:
        self._steps = iterate_codes(self.model.gpt, voice.latents, text, utterance)
        next(self._steps)

    def step(self, utterances: Sequence[DecodingState]) -> None:
        """As in `Backend`; of the one that `begin` gave."""
        if self._steps is not None and not utterances[0].done:
            next(self._steps)

    def end(self, utterance: DecodingState) -> None:
        """As in `Backend`."""
        if self._steps is not None:
            self._steps.close()

    def chunks(self, voice: Voice) -> ChunkedVocoder:
        """As in `Backend`."""
        return ChunkedVocoder(self.model.vocoder, self.model.config.vocoder, voice.speaker)

    def checked(self, chunk: Tensor) -> Tensor:
        """As in `Backend`."""
        chunk = chunk.float().cpu()
        if not bool(torch.isfinite(chunk).all()):
            raise DecodingError(
                "The vocoder's waveform is not finite: this device computes wrongly or the model's "
                "files are damaged. Try DEVICE=cpu."
            )
        return chunk


class TorchBatch(TorchBackend):
    """Up to `count` utterances, one decode step for all of them. layers: those of the heads that
    guards ask for. Used by one thread."""

    def __init__(self, model: Model, count: int, layers: Iterable[int] = ()) -> None:
        super().__init__(model)
        self.count = count
        self._slots = DecodingSlots(model.gpt, count, tuple(sorted(layers)))

    @property
    def free(self) -> int:
        """As in `Backend`."""
        return self._slots.free

    def prepare(self) -> None:
        """Captures now what the first request would else wait for."""
        self._slots.prepare()

    def _start(self, voice: Voice, text: Tensor, utterance: DecodingState) -> None:
        self._slots.enter(voice.latents, text, utterance)

    def step(self, utterances: Sequence[DecodingState]) -> None:
        """As in `Backend`."""
        self._slots.step()

    def end(self, utterance: DecodingState) -> None:
        """As in `Backend`."""
        self._slots.leave(self._slots.utterances.index(utterance))


@dataclass(frozen=True)
class PieceRequest:
    """A piece of text to be decoded by itself, with its own seed."""

    ids: Sequence[int]
    seed: int
    max_codes: int


def decode_together(
    model: Model, voice: Voice, wanted: Sequence[PieceRequest], count: int
) -> list[DecodingResult]:
    """Decodes pieces of text, `count` at once, without guard or sound; `vocode` makes the sound.

    A piece is the same whoever is decoded beside it, as long as `count` is the same. Raises
    DecodingError.
    """
    slots = DecodingSlots(model.gpt, count)
    found: dict[int, DecodingResult] = {}
    waiting, speaking = list(enumerate(wanted)), dict[int, int]()
    while waiting or speaking:
        while waiting and slots.free:
            number, piece = waiting.pop(0)
            random = torch.Generator(model.device).manual_seed(piece.seed)
            state = DecodingState(model.gpt, model.config.decoding, random, piece.max_codes)
            text = torch.tensor(piece.ids, device=model.device)
            speaking[slots.enter(voice.latents, text, state)] = number
        slots.step()
        for slot, utterance in enumerate(slots.utterances):
            if utterance is not None and utterance.error is not None:
                raise utterance.error
            if utterance is not None and utterance.done:
                found[speaking.pop(slot)] = slots.leave(slot)
    return [found[number] for number in range(len(wanted))]


def vocode(model: Model, voice: Voice, decoded: Iterable[DecodingResult]) -> Tensor:
    """The sound `[samples]` of decoded pieces, joined, in float32 on the CPU. Raises
    DecodingError."""
    backend, parts = TorchBackend(model), list[Tensor]()
    for piece in decoded:
        chunks = backend.chunks(voice)
        chunks.add(piece.latents)
        parts += chunks.rest()
    return backend.checked(torch.cat(parts))
