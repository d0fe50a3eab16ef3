"""Speech computed by PyTorch, as `xtts.inference.speech.Backend`."""

from collections.abc import Iterable, Sequence
from types import ModuleType

import torch
from torch import Tensor

from xtts.inference.alignment.heads import Head
from xtts.inference.decoding import DecodingError, DecodingSlots, TorchUtterance
from xtts.inference.defaults import SamplingParams
from xtts.inference.speech import Voice
from xtts.model.loading import Model
from xtts.model.streaming_vocoder import ChunkedVocoder


class TorchBackend:
    """Up to `count` utterances, one decode step for all of them. layers: those of the heads that
    guards ask for, where several speak. Used by one thread."""

    arrays: ModuleType = torch

    def __init__(self, model: Model, count: int = 1, layers: Iterable[int] = ()) -> None:
        self.model = model
        self.count = count
        self._layers = set(layers)
        # While anybody speaks: what a GPU remembers is then for others of the same model.
        self._slots: DecodingSlots | None = None

    @property
    def free(self) -> int:
        """As in `Backend`."""
        return self.count if self._slots is None else self._slots.free

    def prepare(self) -> None:
        """Captures now what the first request would else wait for."""
        self._made(()).prepare()

    def random(self, seed: int) -> torch.Generator:
        """As in `Backend`."""
        return torch.Generator(self.model.device).manual_seed(seed)

    def begin(
        self, voice: Voice, ids: Sequence[int], rules: SamplingParams, random: torch.Generator,
        max_codes: int | None, heads: Sequence[Head],
    ) -> TorchUtterance:  # fmt: skip
        """As in `Backend`."""
        utterance = TorchUtterance(self.model.gpt, rules, random, max_codes, heads)
        slots = self._slots or self._made(heads)
        slots.enter(voice.latents, torch.tensor(ids, device=self.model.device), utterance)
        self._slots = slots
        return utterance

    def _made(self, heads: Sequence[Head]) -> DecodingSlots:
        layers = self._layers | {layer for layer, _ in heads}
        return DecodingSlots(self.model.gpt, self.count, tuple(sorted(layers)))

    def step(self, utterances: Sequence[TorchUtterance]) -> None:
        """As in `Backend`."""
        if self._slots is not None:
            self._slots.step()

    def end(self, utterance: TorchUtterance) -> None:
        """As in `Backend`."""
        assert self._slots is not None
        self._slots.leave(self._slots.utterances.index(utterance))
        if self._slots.free == self.count:
            self._slots = None

    def chunks(self, voice: Voice) -> ChunkedVocoder:
        """As in `Backend`."""
        return ChunkedVocoder(self.model.vocoder, voice.speaker)

    def checked(self, chunk: Tensor) -> Tensor:
        """As in `Backend`."""
        chunk = chunk.float().cpu()
        if not bool(torch.isfinite(chunk).all()):
            raise DecodingError(
                "The vocoder's waveform is not finite: this device computes wrongly or the model's "
                "files are damaged. Try DEVICE=cpu."
            )
        return chunk


def vocode(model: Model, voice: Voice, decoded: Iterable[TorchUtterance]) -> Tensor:
    """The sound `[samples]` of decoded pieces, joined, in float32 on the CPU, without speed, guard
    and fades. Raises DecodingError."""
    backend, parts = TorchBackend(model), list[Tensor]()
    for piece in decoded:
        chunks = backend.chunks(voice)
        chunks.add(piece.latents)
        parts += chunks.rest()
    return backend.checked(torch.cat(parts))
