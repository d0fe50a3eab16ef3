"""One decode step of the transformer with a key-value cache, plain or replayed as a CUDA graph.

In float32 the results are identical to those of `GPT.prefill` with one position per row. There,
the modules, views and copies of thirty layers take a fifth of the time of reading the weights
(benchmarks/record.md). Nothing here reads a value from the device, so a CUDA graph can capture it.

A graph always uses the addresses of its capture. So codes, positions, keys and values stay in place
(`xtts.model.kv_cache.StaticCaches`). There is one graph for each span of positions and number of
attended slots, so that a single request does not read the keys and values of fifteen empty slots.
The first replay of each graph is compared with the step without a graph, because a graph that was
captured on another GPU returns the same result forever. If capturing fails or the results differ,
the step runs without a graph and the reason is logged (figures from a GPU: docs/develop/gpu.md).
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from machine.devices.graph_capture import Capture, captures_on, difference
from xtts.model.adapter import MATRICES, Adapter, LowRank, for_rows
from xtts.model.gpt import GPT
from xtts.model.kv_cache import KeyValueCache, SlotCaches, StaticCaches
from xtts.model.shapes import NUM_LATENTS, GPTShape
from xtts.model.transformer import Block

log = logging.getLogger(__name__)

_gelu = torch._C._nn.gelu  # as nn.functional.gelu, with less overhead
# Attention reads a multiple of this many positions.
SPAN = 256
# The numbers of slots that attention reads, from the first slot on. Low slots are used first.
ATTENDED = (1, 4, 16)
# For the vocoder's windows, a prefill, encoding recordings, and the plans of cuDNN and cuBLAS.
OTHERS_BYTES = 768 << 20


# By row. Other rows use the GPT without an adapter.
Adapters = Mapping[int, Adapter]
NO_ADAPTERS: Adapters = {}
_Layer = tuple[Callable[[Tensor], Tensor], ...]


class DecodeStep:
    """One decode step without graphs. Uses the weights that `gpt` has when this is created."""

    def __init__(self, gpt: GPT) -> None:
        transformer = gpt.gpt
        self._packed_shape = (-1, 3, transformer.heads, 1, transformer.width // transformer.heads)
        self._width = transformer.width
        # 16-bit weights have a 16-bit residual stream; input and output are float32.
        self._inside = transformer.ln_f.weight.dtype
        self._layers = [_layer(block) for block in transformer.h if isinstance(block, Block)]
        self._norms = _norm(transformer.ln_f), _norm(gpt.final_norm)
        self._codes = gpt.mel_embedding.weight
        self._positions = gpt.mel_pos_embedding.emb.weight
        self._head = gpt.mel_head.forward
        self._adapted: tuple[Adapters, list[_Layer]] = NO_ADAPTERS, self._layers

    def __call__(
        self, codes: Tensor, positions: Tensor, cache: KeyValueCache | SlotCaches | StaticCaches,
        adapters: Adapters = NO_ADAPTERS,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """Codes `[rows]` at their audio positions `[rows]`, after those in the cache -> (latents
        `[rows, width]`, audio logits `[rows, audio_ids]`)."""
        x = torch.embedding(self._codes, codes) + torch.embedding(self._positions, positions)
        outside = x.dtype
        if outside != self._inside:
            x = x.to(self._inside)
        layers = self._layers_with(adapters)
        for number, (norm_1, attend, attended, norm_2, widen, narrow) in enumerate(layers):
            packed = attend(norm_1(x)).view(self._packed_shape)
            x += attended(cache.attend_next(number, packed).reshape(-1, self._width))
            x += narrow(_gelu(widen(norm_2(x)), approximate="tanh"))
        cache.advance(1)
        before, after = self._norms
        latents = before(x)
        latents = after(latents if outside == self._inside else latents.to(outside))
        return latents, self._head(latents)

    def _layers_with(self, adapters: Adapters) -> list[_Layer]:
        """The layers with these adapters, cached while the same utterances decode together."""
        known, layers = self._adapted
        if adapters != known:
            layers = [
                _adapted(layer, {row: one.matrices[number] for row, one in adapters.items()})
                for number, layer in enumerate(self._layers)
            ]
            self._adapted = adapters, layers
        return layers


def _adapted(layer: _Layer, rows: Mapping[int, Mapping[str, LowRank]]) -> _Layer:
    pairs = {
        name: [(row, own[name]) for row, own in rows.items() if name in own] for name in MATRICES
    }
    norm_1, attend, attended, norm_2, widen, narrow = layer
    return (
        norm_1, for_rows(attend, pairs["attn.c_attn"]), for_rows(attended, pairs["attn.c_proj"]),
        norm_2, for_rows(widen, pairs["mlp.c_fc"]), for_rows(narrow, pairs["mlp.c_proj"]),
    )  # fmt: skip


def _layer(block: Block) -> _Layer:
    attention, feed_forward = block.attn, block.mlp
    return (
        _norm(block.ln_1), attention.c_attn.forward, attention.c_proj.forward,
        _norm(block.ln_2), feed_forward.c_fc.forward, feed_forward.c_proj.forward,
    )  # fmt: skip


def _norm(norm: nn.LayerNorm) -> Callable[[Tensor], Tensor]:
    return partial(
        torch.layer_norm, normalized_shape=norm.normalized_shape, weight=norm.weight,
        bias=norm.bias, eps=norm.eps,
    )  # fmt: skip


class CudaGraphStep:
    """A decode step for `slots` rows with CUDA graphs. Used by one thread, and by one utterance or
    batcher at a time.

    Attributes:
        caches: Keys, values, and the queries of `layers`.
        reason: Why graphs are off; "" if they are on.
        in_use: Whether it is borrowed.
    """

    @torch.inference_mode()
    def __init__(self, gpt: GPT, slots: int, capture: Capture, layers: Iterable[int] = ()) -> None:
        like = gpt.gpt.new_cache(slots, _positions(gpt.shape))
        self.caches = StaticCaches(like.entries, layers)
        self.reason = ""
        self.in_use = False
        self._step = DecodeStep(gpt)
        self._capture = capture
        self._codes = torch.zeros(slots, dtype=torch.long, device=gpt.mel_head.weight.device)
        self._positions = torch.zeros_like(self._codes)
        self._graphs: dict[tuple[int, int], tuple[tuple[Tensor, Tensor], Callable[[], object]]] = {}

    def release(self) -> None:
        """Returns it after `borrow`. Does not use the device, because the garbage collector may
        call this during a capture."""
        self.in_use = False

    @torch.inference_mode()
    def borrow(self) -> "CudaGraphStep":
        """Marks it as in use and empties every slot."""
        self.in_use = True
        for slot in range(len(self._codes)):
            self.caches.leave(slot)
        return self

    @torch.inference_mode()
    def record(self) -> None:
        """Captures the graphs of all spans and numbers of slots in advance, so that requests do not
        wait for it. Call it only while all slots are free."""
        capacity = self.caches.capacity
        for attended in self.caches.buckets(ATTENDED):
            for end in range(SPAN, capacity + SPAN, SPAN):
                self.caches.attended, self.caches.span = attended, min(end, capacity)
                if not self.reason and self._key not in self._graphs:
                    self._first()

    @torch.inference_mode()
    def __call__(
        self, codes: Tensor, positions: Tensor, adapters: Adapters = NO_ADAPTERS
    ) -> tuple[Tensor, Tensor]:
        """As `DecodeStep`; the next call overwrites the returned tensors. Adapters run without a
        graph, because they change with the utterances."""
        self._codes.copy_(codes)
        self._positions.copy_(positions)
        # The span and the number of attended slots do not change the result of a row: masked
        # positions add nothing, and products always have all rows, so they use the same kernel.
        self.caches.span = self.caches.span_of(SPAN)
        self.caches.attended = self.caches.attended_of(ATTENDED)
        if self.reason or adapters:
            outputs = self._compute(adapters)
        elif (graph := self._graphs.get(self._key)) is not None:
            outputs, replay = graph
            replay()
        else:
            outputs = self._first()
        self.caches.counted()
        return outputs

    @property
    def _key(self) -> tuple[int, int]:
        return self.caches.attended, self.caches.span

    def _compute(self, adapters: Adapters = NO_ADAPTERS) -> tuple[Tensor, Tensor]:
        return self._step(self._codes, self._positions, self.caches, adapters)

    def _first(self) -> tuple[Tensor, Tensor]:
        """Captures a graph and compares its first replay with the step without a graph."""
        lengths = self.caches.lengths.clone()
        plain = tuple(one.clone() for one in self._compute())
        # Each run advances the lengths. They are reset, so that the next one overwrites its
        # entries.
        self.caches.lengths.copy_(lengths)
        try:
            outputs, replay = self._capture(self._compute)
        except (RuntimeError, torch.AcceleratorError) as error:
            self.reason = str(error).splitlines()[0] or type(error).__name__
        else:
            self.caches.lengths.copy_(lengths)
            replay()
            self.reason = difference(outputs, plain)
        if self.reason:
            log.warning("Speaking without CUDA graphs, more slowly: %s", self.reason)
            self.caches.lengths.copy_(lengths)
            return self._compute()
        latents, logits = outputs
        self._graphs[self._key] = (latents, logits), replay
        return latents, logits


_kept: WeakKeyDictionary[GPT, dict[tuple[int, tuple[int, ...]], list[CudaGraphStep]]] = (
    WeakKeyDictionary()
)


def graphed_step(gpt: GPT, slots: int = 1, layers: tuple[int, ...] = ()) -> CudaGraphStep | None:
    """Borrows a step with CUDA graphs for `slots` rows and the queries of `layers`, until
    `release`. Steps are cached as long as `gpt` lives. None on a CPU."""
    device = gpt.mel_head.weight.device
    if device.type != "cuda":
        return None
    kept = _kept.setdefault(gpt, {}).setdefault((slots, layers), [])
    free = next((step for step in kept if not step.in_use), None)
    if free is None:
        free = CudaGraphStep(gpt, slots, captures_on(device), layers)
        kept.append(free)
    return free.borrow()


def _positions(shape: GPTShape) -> int:
    """The positions of a slot: latents, text and codes, and a few for warming up a graph."""
    return NUM_LATENTS + shape.text_positions + shape.audio_positions + 4


def slots_on(gpt: GPT, wanted: int, *, beside_another: bool) -> int:
    """The number of slots for a GPT: `wanted` on a CPU, where slots allocate memory as they speak;
    on a GPU at most as many as fit into its free memory, but at least 1. A slot of XTTS-v2 takes
    257 MB in float32. beside_another: whether another voice of the same service is already loaded
    there; otherwise there must be room for the weights of a second one and as many slots."""
    weight, shape = gpt.mel_head.weight, gpt.shape
    if weight.device.type != "cuda":
        return wanted
    room = torch.cuda.mem_get_info(weight.device)[0] - OTHERS_BYTES
    room += torch.cuda.memory_reserved(weight.device) - torch.cuda.memory_allocated(weight.device)
    slot = 2 * shape.layers * shape.width * _positions(shape) * gpt.gpt.cache_type.itemsize
    if not beside_another:
        room = (room - sum(parameter.nbytes for parameter in gpt.parameters())) // 2
    return max(1, min(wanted, room // slot))
