"""Continuous batching (Orca): one decode step for all slots; requests enter and leave.

The weights are read once a step whoever speaks, and reading them is what a step costs. The number
of rows never changes, so an utterance is the same, bit for bit, in a full house and in an empty
one; `tests/xtts/inference/test_batched_decoding.py` holds it.
"""

import torch
from torch import Tensor

from machine.errors import SotaqueError
from xtts.inference import cuda_graphs
from xtts.inference.decode_step import DecodeStep
from xtts.inference.decoding import DecodingError, DecodingResult, DecodingState, prefill
from xtts.model.gpt import GPT
from xtts.model.kv_cache import SlotCaches

# MKL gives the rows of 5, 6, 7, 9, 10 or 11 to two threads in unlike parts, each with a kernel of
# its own: a row is then another, in its last bit, for its place. Of 4, 8 and 12 it is not.
_ROWS_ALIKE = 4


class NoFreeSlotError(SotaqueError):
    """Every slot speaks; the caller is to wait."""


class DecodingSlots:
    """A fixed number of places to speak from; used by one thread. layers: those that utterances may
    want the queries of, as a recorded step (`xtts.inference.cuda_graphs`) has room for no others.
    """

    def __init__(self, gpt: GPT, count: int, layers: tuple[int, ...] = ()) -> None:
        self.gpt = gpt
        self.utterances: list[DecodingState | None] = [None] * count
        self._step = DecodeStep(gpt)
        self._graphed = cuda_graphs.graphed_step(gpt, count, layers=layers)
        alike = self._graphed is None and count > _ROWS_ALIKE
        self._num_rows = -(-count // _ROWS_ALIKE) * _ROWS_ALIKE if alike else count
        self._caches = SlotCaches([None] * self._num_rows)

    @property
    def free(self) -> int:
        """How many more may enter."""
        return self.utterances.count(None)

    @property
    def speaking(self) -> list[int]:
        """The slots with an utterance that is not done."""
        return [
            slot
            for slot, utterance in enumerate(self.utterances)
            if utterance is not None and not utterance.done
        ]

    def enter(self, latents: Tensor, text: Tensor, utterance: DecodingState) -> int:
        """Reads text ids `[n]` and conditioning latents `[1, 32, width]`, and takes the first code.

        Raises NoFreeSlotError.
        """
        if not self.free:
            count = len(self.utterances)
            raise NoFreeSlotError(f"All {count} slots speak. Try again when one has finished.")
        slot = self.utterances.index(None)
        # The prefix is read by itself: its length differs from everybody else's.
        cache = prefill(self.gpt, latents, text, utterance)
        if self._graphed is not None:
            self._graphed.enter(slot, cache)
        else:
            self._caches.rows[slot] = cache
        self.utterances[slot] = utterance
        return slot

    @torch.inference_mode()
    def step(self) -> list[int]:
        """One more code for every slot that speaks; returns those slots.

        An utterance whose logits are not finite is done, keeps its `error`, and hurts no other.
        """
        speaking = self.speaking
        if not speaking:
            return []
        codes = torch.zeros(self._num_rows, dtype=torch.long, device=self._device)
        positions = torch.zeros_like(codes)
        rows = list(self._caches.rows)
        for slot, utterance in enumerate(self.utterances):
            if slot in speaking and utterance is not None:
                codes[slot], positions[slot] = utterance.code[0], utterance.position
            else:
                self._caches.rows[slot] = None
        try:
            latents, logits = self._computed(codes, positions)
        finally:
            self._caches.rows[:] = rows
        for slot in speaking:
            utterance = self.utterances[slot]
            assert utterance is not None
            if self._graphed is not None:
                self._graphed.caches.tell(slot, utterance.queries)
            try:
                utterance.take(latents[slot], logits[slot])
            except DecodingError as error:
                utterance.error = error
        return speaking

    def leave(self, slot: int) -> DecodingResult:
        """Frees a slot, done or not, and its memory; returns what was said."""
        utterance = self.utterances[slot]
        if utterance is None:
            raise ValueError(f"slot {slot} is empty")
        self.utterances[slot] = self._caches.rows[slot] = None
        if self._graphed is not None:
            self._graphed.leave(slot)
        return utterance.decoded()

    def _computed(self, codes: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        if self._graphed is None:
            return self._step(codes, positions, self._caches)
        # The next replay writes over what this one says.
        latents, logits = self._graphed(codes, positions)
        return latents.clone(), logits.clone()

    @property
    def _device(self) -> torch.device:
        return self.gpt.mel_head.weight.device
