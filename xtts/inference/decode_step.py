"""One decode step of the transformer with a key-value cache, and the rows that decode together.

In float32 the results are identical to those of the GPT's modules. There, the modules, views and
copies of thirty layers take a fifth of the time of reading the weights (benchmarks/record.md).
Nothing here reads a value from the device, so a CUDA graph can capture it (`extras.graphs`, for
figures see docs/develop/gpu.md).
"""

from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor, nn

from machine import extras
from xtts.model.adapter import MATRICES, Adapter, LowRank, for_rows
from xtts.model.gpt import GPT, Block, KeyValueCache, QueryLog, SlotCaches, StepCache
from xtts.model.shapes import NUM_LATENTS, GPTShape

_gelu = torch._C._nn.gelu  # as nn.functional.gelu, with less overhead
# MKL, which computes the audio head, splits 5, 6, 7, 9, 10 or 11 rows unevenly between two threads
# with different kernels, so the last bit of a row depends on its place. With 4, 8 or 12 rows it
# does not, and neither do the products of the layers (`xtts.model.quantization`).
ROWS_ALIKE = 4
# For the vocoder's windows, a prefill, encoding recordings, and the plans of cuDNN and cuBLAS.
OTHERS_BYTES = 768 << 20


# By row. Other rows use the GPT without an adapter.
Adapters = Mapping[int, Adapter]
NO_ADAPTERS: Adapters = {}
_Layer = tuple[Callable[[Tensor], Tensor], ...]


class DecodeStep:
    """The forward of a GPT with a cache. Uses the weights that `gpt` has when this is created."""

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
        self, codes: Tensor, positions: Tensor, cache: StepCache, adapters: Adapters = NO_ADAPTERS
    ) -> tuple[Tensor, Tensor]:
        """Codes `[rows]` at their audio positions `[rows]`, after those in the cache -> (latents
        `[rows, width]`, audio logits `[rows, audio_ids]`)."""
        x = torch.embedding(self._codes, codes) + torch.embedding(self._positions, positions)
        x = x.to(self._inside)
        layers = self._layers_with(adapters)
        for number, (norm_1, attend, attended, norm_2, widen, narrow) in enumerate(layers):
            packed = attend(norm_1(x)).view(self._packed_shape)
            x += attended(cache.attend_next(number, packed).reshape(-1, self._width))
            x += narrow(_gelu(widen(norm_2(x)), approximate="tanh"))
        cache.advance(1)
        return self._outputs(x)

    def prefill(
        self, embedded: Tensor, cache: KeyValueCache, adapter: Adapter | None = None
    ) -> tuple[Tensor, Tensor]:
        """Positions `[rows, time, width]` into an empty cache -> as a step, after the last one.
        adapter: that of the only row."""
        x, time = embedded.to(self._inside, copy=True), embedded.shape[1]
        layers = self._layers_with({} if adapter is None else {0: adapter})
        for number, (norm_1, attend, attended, norm_2, widen, narrow) in enumerate(layers):
            packed = attend(norm_1(x)).view(len(x), time, *self._packed_shape[1:3], -1)
            mixed = cache.attend_first(number, packed.permute(0, 2, 3, 1, 4))
            x += attended(mixed.transpose(1, 2).reshape(x.shape))
            x += narrow(_gelu(widen(norm_2(x)), approximate="tanh"))
        cache.advance(time)
        return self._outputs(x[:, -1])

    def _outputs(self, x: Tensor) -> tuple[Tensor, Tensor]:
        before, after = self._norms
        latents = after(before(x).to(self._codes.dtype))
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


class Rows:
    """The rows that decode together, with a cache for each utterance.

    count: the number of rows; products always have all of them, so that the same kernel computes
    them.
    """

    def __init__(self, gpt: GPT, count: int) -> None:
        self.count = -(-count // ROWS_ALIKE) * ROWS_ALIKE if count > ROWS_ALIKE else count
        self._step = DecodeStep(gpt)
        self._caches: list[KeyValueCache | None] = [None] * self.count

    def prepare(self) -> None:
        """Does now what would delay the first code; nothing without graphs."""

    def enter(self, row: int, filled: KeyValueCache) -> None:
        """Continues the utterance of this cache in a row."""
        self._caches[row] = filled

    def leave(self, row: int) -> None:
        """Frees a row."""
        self._caches[row] = None

    def step(
        self, codes: Tensor, positions: Tensor, adapters: Adapters, logs: Mapping[int, QueryLog]
    ) -> tuple[Tensor, Tensor]:
        """As `DecodeStep`. logs: those of the utterances that continue, by row; the results of
        other rows are discarded."""
        caches = [cache if row in logs else None for row, cache in enumerate(self._caches)]
        alone = caches[0] if self.count == 1 else None
        return self._step(codes, positions, alone or SlotCaches(caches), adapters)


def rows_of(gpt: GPT, count: int, layers: tuple[int, ...], owner: object) -> Rows:
    """Rows for `count` utterances, which are in use as long as `owner` lives: on a GPU those of the
    extra that replays steps as CUDA graphs, and that stores the queries of `layers` only."""
    if gpt.mel_head.weight.device.type == "cuda" and (graphs := extras.first("SPEECH_GRAPHS")):
        rows: Rows = graphs.rows_of(gpt, count, layers, owner)
        return rows
    return Rows(gpt, count)


def slot_positions(shape: GPTShape) -> int:
    """The most positions of a slot: latents, text and codes, and a few for warming up a graph."""
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
    slot = 2 * shape.layers * shape.width * slot_positions(shape) * gpt.gpt.cache_type.itemsize
    if not beside_another:
        room = (room - sum(parameter.nbytes for parameter in gpt.parameters())) // 2
    return max(1, min(wanted, room // slot))
