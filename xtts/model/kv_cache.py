"""Key-value caches and their type: one row, and several rows that decode together."""

from collections.abc import Iterable, Sequence
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F


def type_for_rounded_weights() -> torch.dtype:
    """The type of the cache beside int8 or int4 weights on a CPU: bfloat16 only with AMX; with
    AVX-512 alone, attention would take twice as long.

    Every code reads the whole cache: 45 MB in float32 after 185 positions, compared with 379 MB of
    weights in int8.
    """
    return torch.bfloat16 if torch.cpu._is_amx_tile_supported() else torch.float32


class StepCache(Protocol):
    """A cache for a decode step."""

    def attend_next(self, layer: int, packed: Tensor) -> Tensor:
        """Attention of one position per row: queries, keys and values `[rows, 3, heads, 1,
        head_width]` -> `[rows, heads, 1, head_width]`. Stores keys and values."""

    def advance(self, time: int) -> None:
        """Counts `time` new positions, after the last layer."""


class QueryLog:
    """Stores the queries of some layers while one utterance is decoded, and their keys of its text,
    so that the attention can be computed afterwards (`xtts.inference.alignment.path`).

    Computes nothing during decoding, so the speech is identical with and without it.

    Attributes:
        keys: For each layer `[heads, positions, head_width]` of START, the ids and STOP.
    """

    def __init__(self, layers: Iterable[int] = ()) -> None:
        self._queries: dict[int, list[Tensor]] = {layer: [] for layer in sorted(set(layers))}
        self.keys: dict[int, Tensor] = {}

    @property
    def layers(self) -> tuple[int, ...]:
        """The numbers of these layers."""
        return tuple(self._queries)

    def add(self, layer: int, queries: Tensor) -> None:
        """Stores a copy of the queries of one code, `[heads, head_width]` in any shape."""
        if layer in self._queries:
            # A view would keep the queries of all rows alive.
            self._queries[layer].append(queries.clone())

    def read_text(self, cache: "KeyValueCache", start: int, stop: int) -> None:
        """Copies the keys of these positions from a cache."""
        self.keys = {layer: cache.keys[layer, 0, :, start:stop].clone() for layer in self._queries}

    def of(self, layer: int) -> tuple[Tensor, Tensor]:
        """The queries `[codes, heads, head_width]` and the keys of a layer, in float32 on the
        CPU."""
        keys = self.keys[layer].float().cpu()
        queries = torch.stack([one.reshape(keys.shape[0], -1) for one in self._queries[layer]])
        return queries.float().cpu(), keys


class KeyValueCache:
    """A cache whose storage is allocated once; `length` positions of it are in use.

    Keys and values of a position are adjacent, so that one copy writes both. entries: [layers,
    batch, 2, heads, capacity, head_width]; log: stores the queries of its only row, or None.
    """

    def __init__(self, entries: Tensor) -> None:
        self.entries = entries
        self.length = 0
        self.log: QueryLog | None = None
        # A list, because indexing a layer of a tensor takes longer than its attention.
        self._layers = [entries.select(0, layer) for layer in range(len(entries))]

    @property
    def keys(self) -> Tensor:
        """[layers, batch, heads, capacity, head_width]."""
        return self.entries[:, :, 0]

    def attend_first(self, layer: int, packed: Tensor) -> Tensor:
        """Causal attention of the first positions: queries, keys and values `[rows, 3, heads, time,
        head_width]` -> `[rows, heads, time, head_width]`. Stores keys and values."""
        self._layers[layer].narrow(3, 0, packed.shape[3]).copy_(packed[:, 1:])
        queries, keys, values = packed.unbind(1)
        if self.log is not None:
            self.log.add(layer, queries[:, :, -1])
        return F.scaled_dot_product_attention(queries, keys, values, is_causal=True)

    def attend_next(self, layer: int, packed: Tensor) -> Tensor:
        """As in `StepCache`."""
        entries = self._layers[layer]
        entries.narrow(3, self.length, 1).copy_(packed.narrow(1, 1, 2))
        keys, values = entries.narrow(3, 0, self.length + 1).unbind(1)
        # One new position attends to everything, so no mask is needed.
        queries = packed.select(1, 0)
        if self.log is not None:
            self.log.add(layer, queries)
        if entries.dtype == packed.dtype:
            return F.scaled_dot_product_attention(queries, keys, values)
        mixed = F.scaled_dot_product_attention(queries.to(entries.dtype), keys, values)
        return mixed.to(packed.dtype)

    def advance(self, time: int) -> None:
        """As in `StepCache`."""
        self.length += time


class SlotCaches:
    """One cache per row. A row without a cache is an empty slot, whose result is discarded.

    Each row attends separately and over its length only, so that the speech of a slot does not
    depend on the other slots.
    """

    def __init__(self, rows: Sequence[KeyValueCache | None]) -> None:
        self._rows = {row: cache for row, cache in enumerate(rows) if cache is not None}

    def attend_next(self, layer: int, packed: Tensor) -> Tensor:
        """As in `StepCache`."""
        mixed = torch.zeros_like(packed[:, 0])
        for row, cache in self._rows.items():
            mixed[row : row + 1] = cache.attend_next(layer, packed[row : row + 1])
        return mixed

    def advance(self, time: int) -> None:
        for cache in self._rows.values():
            cache.advance(time)
