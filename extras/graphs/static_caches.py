"""StaticCaches: keys and values at fixed addresses, as a CUDA graph requires."""

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.nn import functional as F

from xtts.model.gpt import KeyValueCache, QueryLog


class StaticCaches:
    """Slots whose shapes and addresses never change.

    The first `attended` slots attend over the first `span` positions, with unused positions masked. An
    empty slot among them overwrites its single position at every step; the results of the slots after
    them are discarded. The first layer computes the mask for all layers.

    Args:
        entries: The entries of an empty cache with one row per slot.
        watched: The layers of which queries are kept.

    Attributes:
        entries: Keys and values `[layers, slots, 2, heads, capacity, head_width]`.
        lengths, speaking: `[slots]`, on the device.
        queries: By watched layer, `[slots, heads, head_width]`, overwritten at every step.
    """

    def __init__(self, entries: Tensor, watched: Iterable[int] = ()) -> None:
        self.entries = entries
        slots, self.capacity = entries.shape[1], entries.shape[4]
        self.lengths = torch.zeros(slots, dtype=torch.long, device=entries.device)
        self.speaking = torch.zeros_like(self.lengths)
        self.span, self.attended = self.capacity, slots
        shape = (slots, entries.shape[3], entries.shape[5])
        self.queries = {layer: entries.new_zeros(shape) for layer in watched}
        # The lengths on the host, so that reading them does not wait for the device.
        self._host_lengths = [0] * slots
        self._slots = torch.arange(slots, device=entries.device)
        self._position_range = torch.arange(self.capacity, device=entries.device)
        self._mask: Tensor | None = None
        # The attention of the first slots, in a tensor with rows for all slots.
        self._padded_output = entries.new_zeros(slots, entries.shape[3], 1, entries.shape[5])

    def log_queries(self, slot: int, log: QueryLog) -> None:
        """Adds the queries of a slot's last step to the log of its utterance."""
        for layer, queries in self.queries.items():
            log.add(layer, queries[slot])

    def attend_next(self, layer: int, packed: Tensor) -> Tensor:
        """As in `StepCache`."""
        entries, rows = self.entries[layer][: self.attended], packed[: self.attended]
        if layer in self.queries:
            self.queries[layer].copy_(packed[:, 0, :, 0])
        lengths, slots = self.lengths[: self.attended], self._slots[: self.attended]
        # [slots, 2, heads, head_width], each row at another position.
        entries[slots, :, :, lengths] = rows[:, 1:, :, 0].to(entries.dtype)
        keys, values = entries[:, :, :, : self.span].unbind(1)
        if self._mask is None:
            unseen = self._position_range[None, : self.span] > lengths[:, None]
            # Added to the scores; attention would convert a boolean mask to this in every layer.
            zeros = entries.new_zeros(unseen.shape)
            self._mask = zeros.masked_fill_(unseen, -torch.inf)[:, None, None]
        queries = rows[:, 0].to(entries.dtype)
        attended_values = F.scaled_dot_product_attention(queries, keys, values, attn_mask=self._mask)
        if len(attended_values) < len(packed):
            self._padded_output[: self.attended].copy_(attended_values)
            attended_values = self._padded_output
        return attended_values.to(packed.dtype)

    def advance(self, time: int) -> None:
        self.lengths += time * self.speaking
        self._mask = None

    def smallest_span(self, step: int) -> int:
        """The smallest multiple of `step` that holds the next position of every row."""
        longest = max(self._host_lengths) + 1
        return min(self.capacity, -(-longest // step) * step)

    def buckets(self, sizes: Iterable[int]) -> list[int]:
        """The possible values of `attended`: those of `sizes` below the number of slots, and that
        number."""
        slots = len(self._host_lengths)
        return [*(size for size in sizes if size < slots), slots]

    def smallest_bucket(self, sizes: Iterable[int]) -> int:
        """The smallest bucket that contains every slot in use."""
        used = max((slot + 1 for slot, length in enumerate(self._host_lengths) if length), default=1)
        return next(size for size in self.buckets(sizes) if size >= used)

    def count_positions(self) -> None:
        """Counts one more position for every active row, on the host."""
        self._host_lengths = [length + (length > 0) for length in self._host_lengths]

    @torch.inference_mode()
    def enter(self, slot: int, filled: KeyValueCache) -> None:
        """Copies the keys and values of a cache with one row into `slot`."""
        used = filled.entries[:, 0, :, :, : filled.length]
        self.entries[:, slot, :, :, : filled.length] = used
        self._host_lengths[slot] = filled.length
        self.lengths[slot] = filled.length
        self.speaking[slot] = 1

    @torch.inference_mode()
    def leave(self, slot: int) -> None:
        """Frees `slot`."""
        self._host_lengths[slot] = 0
        self.lengths[slot] = 0
        self.speaking[slot] = 0
