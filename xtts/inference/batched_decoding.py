"""Continuous batching (Orca): one decode step for all slots; requests enter and leave.

The weights are read once a step whoever speaks, and reading them is what a step costs. The number
of rows never changes, so an utterance is the same, bit for bit, in a full house and in an empty
one; `tests/xtts/inference/test_batched_decoding.py` holds it.
"""

import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from xtts.inference import cuda_graphs, decoding
from xtts.inference.decode_step import DecodeStep
from xtts.inference.decoding import DecodingError, DecodingResult, DecodingState, prefill
from xtts.inference.speech import NoFreeSlotError
from xtts.model.gpt import GPT
from xtts.model.kv_cache import SlotCaches

# MKL gives the rows of 5, 6, 7, 9, 10 or 11 to two threads in unlike parts, each with a kernel of
# its own: a row is then another, in its last bit, for its place. Of 4, 8 and 12 it is not.
_ROWS_ALIKE = 4


class DecodingSlots:
    """A fixed number of places to speak from; used by one thread. layers: those that utterances may
    want the queries of, as a recorded step (`xtts.inference.cuda_graphs`) has room for no others.
    """

    def __init__(self, gpt: GPT, count: int, layers: tuple[int, ...] = ()) -> None:
        self.gpt = gpt
        self.utterances: list[DecodingState | None] = [None] * count
        self._step = DecodeStep(gpt)
        self._graphed = cuda_graphs.graphed_step(gpt, count, layers=layers)
        if self._graphed is not None:
            weakref.finalize(self, self._graphed.release)
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

    def prepare(self) -> None:
        """Captures now what would else be captured at the first code."""
        if self._graphed is not None:
            self._graphed.record()

    @torch.inference_mode()
    def step(self) -> list[int]:
        """One more code for every slot that speaks; returns those slots.

        An utterance whose logits are not finite is done, keeps its `error`, and hurts no other.
        """
        speaking = self.speaking
        if not speaking:
            return []
        codes, positions = self._inputs(speaking)
        rows = list(self._caches.rows)
        for slot in range(len(self.utterances)):
            if slot not in speaking:
                self._caches.rows[slot] = None
        try:
            latents, logits = self._computed(codes, positions)
        finally:
            self._caches.rows[:] = rows
        self._take(speaking, latents, logits)
        return speaking

    def _inputs(self, speaking: list[int]) -> tuple[Tensor, Tensor]:
        """The last codes of all rows and their positions; 0 in rows where nobody speaks."""
        nobody = torch.zeros(1, dtype=torch.long, device=self._device)
        codes, positions = [nobody] * self._num_rows, [0] * self._num_rows
        for slot in speaking:
            utterance = self._at(slot)
            codes[slot], positions[slot] = utterance.code, utterance.position
        return torch.cat(codes), torch.tensor(positions).to(self._device, non_blocking=True)

    def _take(self, speaking: list[int], latents: Tensor, logits: Tensor) -> None:
        """Has each utterance choose; what they chose is looked at once for all of them, since to
        look is to wait for a GPU."""
        if self._graphed is not None:
            for slot in speaking:
                self._graphed.caches.tell(slot, self._at(slot).queries)
        if decoding.waits_for_nothing(logits):
            for slot in speaking:
                with self._of_one(slot):
                    self._at(slot).take(latents[slot], logits[slot])
            return
        those = [self._at(slot) for slot in speaking]
        codes = decoding.sample_rows(
            torch.stack([logits[slot] for slot in speaking]),
            torch.stack([one.seen for one in those]),
            [one.decoding for one in those],
            [one.generator for one in those],
        )
        for row, (slot, code) in enumerate(zip(speaking, codes.tolist(), strict=True)):
            self._at(slot).chose(latents[slot], codes[row : row + 1])
            with self._of_one(slot):
                self._at(slot).settle(code)

    @contextmanager
    def _of_one(self, slot: int) -> Iterator[None]:
        try:
            yield
        except DecodingError as error:
            self._at(slot).error = error

    def _at(self, slot: int) -> DecodingState:
        utterance = self.utterances[slot]
        assert utterance is not None
        return utterance

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
