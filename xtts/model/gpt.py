"""The GPT, the trained part of XTTS: embeddings, transformer, key-value caches and heads.

Coqui's implementation is not used, because it imports transformers, whose updates broke it more
than once. The names are Coqui's, so that a published `model.pth` is read and written key for key.
On disk Coqui uses Hugging Face's Conv1D orientation, `[in, out]`, for the transformer's weights,
here `nn.Linear`, `[out, in]`; only `to_coqui` and `from_coqui` transpose them.

Packed training, LoRA and ONNX share this definition. Speech runs its layers with a key-value cache
(`xtts.inference.torch_backend`), and `xtts.model.training` computes its losses. `tests/peers`
compares them, the gradients and greedy codes with Coqui's `GPT`.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from xtts.model.conditioning import ConditioningEncoder, PerceiverResampler
from xtts.model.shapes import GPTShape


def cache_type_for_quantized_weights() -> torch.dtype:
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
    so that the attention can be computed afterwards (`xtts.inference.alignment.guard`).

    Computes nothing during decoding, so the speech is identical with and without it.

    Attributes:
        keys: For each layer `[heads, positions, head_width]` of START, the ids and STOP.
    """

    def __init__(self, layers: Iterable[int] = ()) -> None:
        self._queries: dict[int, list[Tensor]] = {layer: [] for layer in sorted(set(layers))}
        self.keys: dict[int, Tensor] = {}

    @property
    def layers(self) -> tuple[int, ...]:
        """The layers of which queries are stored."""
        return tuple(self._queries)

    def add(self, layer: int, queries: Tensor) -> None:
        """Stores a copy of the queries of one code, `[heads, head_width]` in any shape."""
        if layer in self._queries:
            # A view would keep the queries of all rows alive.
            self._queries[layer].append(queries.clone())

    def read_text(self, cache: "KeyValueCache", start: int, stop: int) -> None:
        """Copies the keys of these positions from a cache."""
        self.keys = {layer: cache.keys[layer, 0, :, start:stop].clone() for layer in self._queries}

    def queries_and_keys(self, layer: int) -> tuple[Tensor, Tensor]:
        """The queries `[codes, heads, head_width]` and the keys of a layer, in float32 on the
        CPU."""
        keys = self.keys[layer].float().cpu()
        queries = torch.stack([query.reshape(keys.shape[0], -1) for query in self._queries[layer]])
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


class AttentionLayout(Protocol):
    """Computes attention in place of `Attention`: between the clips of a packed row in training,
    and with the past in an exported graph. Tensors are [batch, heads, time, head_width]."""

    def around(self, *parts: nn.Module) -> AbstractContextManager[None]:
        """A context for the forward of these parts of a block; training casts their weights."""
        return nullcontext()

    def attend_packed(self, packed: Tensor, heads: int) -> Tensor | None:
        """The attention of adjacent queries, keys and values `[batch, time, 3 * width]` ->
        `[batch, time, width]`; None if `attend` computes it."""
        return None

    def attend(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """The attention, causal within these positions."""


class Dropout(nn.Dropout):
    """Dropout with cheap random numbers on a CPU: 16 bits per value.

    torch's dropout draws value by value in one thread: 4.3 ms for 790 positions of 1,024; this
    takes 0.7 ms. The probability is rounded to 1/65,536, and kept values are scaled by the rounded
    one, so that the mean is preserved. On other devices this is torch's dropout.
    """

    def forward(self, input: Tensor) -> Tensor:
        if not self.training or self.p == 0 or input.device.type != "cpu":
            return super().forward(input)
        dropped = min(round(self.p * 2**16), 2**16 - 1)
        bits = torch.empty(-(-input.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
        mask = bits.view(torch.int16)[: input.numel()].ge_(dropped - 2**15)
        scale = 2**16 / (2**16 - dropped)
        return input * mask.to(input.dtype).mul_(scale).view(input.shape)


class Attention(nn.Module):
    """Causal self-attention, without dropout on the attention weights, which flash kernels on a CPU
    do not support."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, layout: AttentionLayout | None, layer: int) -> Tensor:
        batch, time, width = x.shape
        packed = self.c_attn(x)
        if layout is not None and (mixed := layout.attend_packed(packed, self.heads)) is not None:
            return self.dropout(self.c_proj(mixed))
        queries, keys, values = (
            part.view(batch, time, self.heads, -1).transpose(1, 2) for part in packed.split(width, dim=2)
        )
        if layout is None:
            mixed = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        else:
            mixed = layout.attend(layer, queries, keys, values)
        mixed = mixed.transpose(1, 2).reshape(batch, time, width)
        return self.dropout(self.c_proj(mixed))


class FeedForward(nn.Module):
    """Two linear layers around a GELU in GPT-2's tanh form."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.c_fc = nn.Linear(width, 4 * width)
        self.c_proj = nn.Linear(4 * width, width)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(self.c_proj(F.gelu(self.c_fc(x), approximate="tanh")))


class Block(nn.Module):
    """Pre-norm attention and feed-forward, each added to the stream."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads, dropout)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = FeedForward(width, dropout)

    def forward(self, x: Tensor, layout: AttentionLayout | None, layer: int) -> Tensor:
        with nullcontext() if layout is None else layout.around(self.attn, self.mlp):
            x = x + self.attn(self.ln_1(x), layout, layer)
            return x + self.mlp(self.ln_2(x))


class Transformer(nn.Module):
    """GPT-2 without its embeddings; the caller adds the positions.

    `dropout` works on the embeddings and on both residual branches, as in GPT-2.
    """

    def __init__(self, layers: int, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"width {width} is not a multiple of {heads} heads")
        self.heads = heads
        self.width = width
        self.dropout = Dropout(dropout)
        self.h = nn.ModuleList(Block(width, heads, dropout) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        self.cache_type = torch.float32

    def forward(self, x: Tensor, layout: AttentionLayout | None = None) -> Tensor:
        """[batch, time, width] -> the same shape; every position attends to itself and to earlier
        ones, or as `layout` computes it."""
        input_type, residual_type = x.dtype, self.ln_f.weight.dtype
        # With 16-bit weights the residual stream has 16 bits too; input and output are float32.
        x = self.dropout(x if input_type == residual_type else x.to(residual_type))
        for layer, block in enumerate(self.h):
            x = block(x, layout, layer)
        hidden: Tensor = self.ln_f(x)
        return hidden if input_type == residual_type else hidden.to(input_type)

    def new_cache(self, batch: int, capacity: int) -> KeyValueCache:
        """An empty cache for this transformer, on the device of its weights."""
        size = len(self.h), batch, 2, self.heads, capacity, self.width // self.heads
        return KeyValueCache(self.ln_f.weight.new_zeros(size, dtype=self.cache_type))


PREFIX = "gpt."
# The tables with a row for each text id.
TEXT_TABLES = ("text_embedding.weight", "text_head.weight", "text_head.bias")
# On disk these are Hugging Face Conv1D weights, [in, out].
_TRANSPOSED_WEIGHTS = ("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")


class PositionTable(nn.Module):
    """Learned positions; the extra level `emb` is Coqui's name on disk."""

    def __init__(self, positions: int, width: int) -> None:
        super().__init__()
        self.emb = nn.Embedding(positions, width)

    def forward(self, positions: Tensor) -> Tensor:
        return self.emb(positions)


class GPT(nn.Module):
    """Text ids and a voice's latents in, codes and their latents out.

    The latents for the vocoder are `final_norm(transformer(...))` at the audio positions.
    """

    def __init__(self, shape: GPTShape, dropout: float = 0.0) -> None:
        super().__init__()
        self.shape = shape
        width = shape.width
        self.conditioning_encoder = ConditioningEncoder(width, shape.heads)
        self.conditioning_perceiver = PerceiverResampler(width)
        self.text_embedding = nn.Embedding(shape.text_ids, width)
        self.mel_embedding = nn.Embedding(shape.audio_ids, width)
        self.text_pos_embedding = PositionTable(shape.text_positions, width)
        self.mel_pos_embedding = PositionTable(shape.audio_positions, width)
        self.gpt = Transformer(shape.layers, width, shape.heads, dropout)
        self.final_norm = nn.LayerNorm(width)
        self.text_head = nn.Linear(width, shape.text_ids)
        self.mel_head = nn.Linear(width, shape.audio_ids)

    def conditioning_latents(self, mel: Tensor) -> Tensor:
        """Conditioning mel `[batch, 80, frames]` -> latents `[batch, 32, width]`."""
        return self.conditioning_perceiver(self.conditioning_encoder(mel).transpose(1, 2))

    def prefix(self, latents: Tensor, text: Tensor) -> Tensor:
        """Latents `[1, 32, width]` and text ids `[n]` -> embeddings `[1, 32 + n + 2, width]`."""
        ids = F.pad(text, (1, 0), value=self.shape.text_start)
        ids = F.pad(ids, (0, 1), value=self.shape.text_stop)
        positions = torch.arange(len(ids), device=ids.device)
        embedded = self.text_embedding(ids) + self.text_pos_embedding(positions)
        return torch.cat((latents.to(embedded.dtype), embedded[None]), dim=1)

    def audio_input(self, code: Tensor, position: int | Tensor) -> Tensor:
        """Codes `[batch]` at one audio position, or at one position each -> embeddings
        `[batch, 1, width]`."""
        positions = position if isinstance(position, Tensor) else torch.full_like(code, position)
        return (self.mel_embedding(code) + self.mel_pos_embedding(positions))[:, None]


def to_coqui(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """`GPT.state_dict()` -> the names and orientation of Coqui's `model.pth`."""
    return {PREFIX + name: _transpose(name, tensor).contiguous() for name, tensor in state.items()}


def from_coqui(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The trained part of a `model.pth` -> `GPT.state_dict()`.

    Leaves out other parts, and the inference copies that Coqui's trainer also saves.
    """
    inference_copies = (PREFIX + "gpt_inference.", PREFIX + "gpt.wte.", PREFIX + "gpt.wpe.")
    return {
        name.removeprefix(PREFIX): _transpose(name, tensor)
        for name, tensor in state.items()
        if name.startswith(PREFIX) and not name.startswith(inference_copies)
    }


def _transpose(name: str, tensor: Tensor) -> Tensor:
    is_transposed = name.endswith(_TRANSPOSED_WEIGHTS) and ".h." in f".{name}"
    return tensor.t() if is_transposed else tensor
