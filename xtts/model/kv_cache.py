"""Key-value caches: one row, slots for batching, static buffers for CUDA graphs.

`xtts.model.transformer.Attention` hands its queries, keys and values to `attend`; no other module
does.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F


class Cache(Protocol):
    """What the transformer asks of a cache. Tensors are [batch, heads, time, head_width]."""

    def attend(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Remembers keys and values; each position sees itself and all before it."""

    def advance(self, time: int) -> None:
        """Counts `time` new positions, behind the last layer."""


class QueryLog:
    """What some layers ask while one utterance is decoded, and their keys of its text: all that is
    needed to know afterwards where they looked (`xtts.inference.alignment.path`).

    Nothing is computed while decoding, so what is said is the same, bit for bit, with a log and
    without.

    Attributes:
        keys: For each layer `[heads, positions, head_width]` of START, the ids and STOP.
    """

    def __init__(self, layers: Iterable[int] = ()) -> None:
        self._queries: dict[int, list[Tensor]] = {layer: [] for layer in sorted(set(layers))}
        self.keys: dict[int, Tensor] = {}

    @property
    def layers(self) -> tuple[int, ...]:
        """Whose queries are kept."""
        return tuple(self._queries)

    @property
    def count(self) -> int:
        """Of how many codes there are the queries of every layer."""
        return min(map(len, self._queries.values()), default=0)

    def add(self, layer: int, queries: Tensor) -> None:
        """Keeps the queries of one code, `[heads, head_width]` in any shape."""
        if layer in self._queries:
            # A view would keep alive what all rows asked.
            self._queries[layer].append(queries.clone())

    def read_text(self, cache: "KeyValueCache", start: int, stop: int) -> None:
        """Takes the keys of these positions out of a cache that has read them."""
        self.keys = {layer: cache.keys[layer, 0, :, start:stop].clone() for layer in self._queries}

    def of(self, layer: int) -> tuple[Tensor, Tensor]:
        """Queries `[codes, heads, head_width]` and keys of a layer, in float32 on the CPU."""
        keys = self.keys[layer].float().cpu()
        queries = torch.stack([one.reshape(keys.shape[0], -1) for one in self._queries[layer]])
        return queries.float().cpu(), keys


class KeyValueCache:
    """Storage is allocated once; `length` positions of it are in use.

    Keys and values of a position lie beside each other, so that one copy writes both.
    entries: [layers, batch, 2, heads, capacity, head_width]; log: who keeps the queries of its one
    row, if anybody does.
    """

    def __init__(self, entries: Tensor) -> None:
        self.entries = entries
        self.length = 0
        self.log: QueryLog | None = None
        # A list, because taking a layer out of a tensor costs more than attending in it.
        self._layers = [entries.select(0, layer) for layer in range(len(entries))]

    @property
    def keys(self) -> Tensor:
        """[layers, batch, heads, capacity, head_width]."""
        return self.entries[:, :, 0]

    def attend(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Any number of positions into an empty cache, afterwards one at a time."""
        time = keys.shape[2]
        if self.length and time != 1:
            raise ValueError(f"{time} positions at once behind {self.length} cached ones")
        packed = torch.stack((queries, keys, values), 1)
        if self.length:
            return self.attend_next(layer, packed)
        self._layers[layer].narrow(3, 0, time).copy_(packed[:, 1:])
        if self.log is not None:
            self.log.add(layer, queries[:, :, -1])
        return F.scaled_dot_product_attention(queries, keys, values, is_causal=True)

    def attend_next(self, layer: int, packed: Tensor) -> Tensor:
        """One position of each row: queries, keys and values `[rows, 3, heads, 1, head_width]` ->
        `[rows, heads, 1, head_width]`; remembers keys and values."""
        entries = self._layers[layer]
        entries.narrow(3, self.length, 1).copy_(packed.narrow(1, 1, 2))
        keys, values = entries.narrow(3, 0, self.length + 1).unbind(1)
        # One new position sees everything: no mask.
        queries = packed.select(1, 0)
        if self.log is not None:
            self.log.add(layer, queries)
        if entries.dtype == packed.dtype:
            return F.scaled_dot_product_attention(queries, keys, values)
        mixed = F.scaled_dot_product_attention(queries.to(entries.dtype), keys, values)
        return mixed.to(packed.dtype)

    def advance(self, time: int) -> None:
        self.length += time


class SlotCaches:
    """One cache a row; a row without one is an empty slot, computed and thrown away.

    Each row attends by itself, over its own length: what a slot says does not depend, in any bit,
    on who else is there.
    """

    def __init__(self, rows: Sequence[KeyValueCache | None]) -> None:
        self._rows = {row: cache for row, cache in enumerate(rows) if cache is not None}

    def attend_next(self, layer: int, packed: Tensor) -> Tensor:
        """As in `KeyValueCache`."""
        mixed = torch.zeros_like(packed[:, 0])
        for row, cache in self._rows.items():
            mixed[row : row + 1] = cache.attend_next(layer, packed[row : row + 1])
        return mixed

    def advance(self, time: int) -> None:
        for cache in self._rows.values():
            cache.advance(time)


class StaticCaches:
    """Slots whose shapes and addresses never change, as a CUDA graph needs them.

    entries: [layers, slots, 2, heads, capacity, head_width]; lengths, speaking: [slots], on the
    device. The first `attended` slots attend over the first `span` positions, with what is not in
    use masked; an empty slot among them writes its one position again and again, those behind them
    are computed and thrown away. What is masked is settled by the first layer for all of them.
    queries: of the watched layers, [slots, heads, head_width], overwritten by each step.
    """

    def __init__(self, entries: Tensor, watched: Iterable[int] = ()) -> None:
        """entries: of a cache that nothing is in, with a row for each slot; watched: the layers
        whose queries are kept."""
        self.entries = entries
        slots, self.capacity = entries.shape[1], entries.shape[4]
        self.lengths = torch.zeros(slots, dtype=torch.long, device=entries.device)
        self.speaking = torch.zeros_like(self.lengths)
        self.span, self.attended = self.capacity, slots
        shape = (slots, entries.shape[3], entries.shape[5])
        self.queries = {layer: entries.new_zeros(shape) for layer in watched}
        # The same on the host, so that it is known without waiting for the device.
        self._counts = [0] * slots
        self._slots = torch.arange(slots, device=entries.device)
        self._places = torch.arange(self.capacity, device=entries.device)
        self._mask: Tensor | None = None
        # Attention of the first slots stands in the rows of all.
        self._mixed = entries.new_zeros(slots, entries.shape[3], 1, entries.shape[5])

    def tell(self, slot: int, log: QueryLog) -> None:
        """Adds to the log of an utterance what its slot asked in the last step."""
        for layer, queries in self.queries.items():
            log.add(layer, queries[slot])

    def attend_next(self, layer: int, packed: Tensor) -> Tensor:
        """As in `KeyValueCache`."""
        entries, rows = self.entries[layer][: self.attended], packed[: self.attended]
        if layer in self.queries:
            self.queries[layer].copy_(packed[:, 0, :, 0])
        lengths, slots = self.lengths[: self.attended], self._slots[: self.attended]
        # [slots, 2, heads, head_width], each at its own place.
        entries[slots, :, :, lengths] = rows[:, 1:, :, 0].to(entries.dtype)
        keys, values = entries[:, :, :, : self.span].unbind(1)
        if self._mask is None:
            unseen = self._places[None, : self.span] > lengths[:, None]
            # Added to the scores: attention would make the same of a bool, once a layer.
            zeros = entries.new_zeros(unseen.shape)
            self._mask = zeros.masked_fill_(unseen, -torch.inf)[:, None, None]
        queries = rows[:, 0].to(entries.dtype)
        mixed = F.scaled_dot_product_attention(queries, keys, values, attn_mask=self._mask)
        if len(mixed) < len(packed):
            self._mixed[: self.attended].copy_(mixed)
            mixed = self._mixed
        return mixed.to(packed.dtype)

    def advance(self, time: int) -> None:
        self.lengths += time * self.speaking
        self._mask = None

    def span_of(self, step: int) -> int:
        """The smallest multiple of `step` that holds the next position of every row."""
        longest = max(self._counts) + 1
        return min(self.capacity, -(-longest // step) * step)

    def buckets(self, sizes: Iterable[int]) -> list[int]:
        """Numbers of slots that may attend: those of `sizes` that are not all, and all."""
        slots = len(self._counts)
        return [*(size for size in sizes if size < slots), slots]

    def attended_of(self, sizes: Iterable[int]) -> int:
        """The smallest of the buckets that holds every slot that is in use."""
        used = max((slot + 1 for slot, count in enumerate(self._counts) if count), default=1)
        return next(size for size in self.buckets(sizes) if size >= used)

    def counted(self) -> None:
        """Counts one more position for every active row, on the host."""
        self._counts = [count + (count > 0) for count in self._counts]

    @torch.inference_mode()
    def enter(self, slot: int, filled: KeyValueCache) -> None:
        """Takes over what one row has seen, into `slot`."""
        used = filled.entries[:, 0, :, :, : filled.length]
        self.entries[:, slot, :, :, : filled.length] = used
        self._counts[slot] = filled.length
        self.lengths[slot] = filled.length
        self.speaking[slot] = 1

    @torch.inference_mode()
    def leave(self, slot: int) -> None:
        """Frees `slot`."""
        self._counts[slot] = 0
        self.lengths[slot] = 0
        self.speaking[slot] = 0
