"""Speech computed by PyTorch with continuous batching, as `xtts.inference.speech.Backend`.

Continuous batching (Orca) decodes one step for all active utterances. The latent of each code is
kept from the step that computed it; Coqui runs the whole GPT a second time to get the same values.
The sampling order is that of Hugging Face's `generate`: repetition penalty, temperature, top-k,
top-p.

A step reads all weights once, which is most of its cost. The number of rows never changes, so the
result of an utterance does not depend on the others (`tests/xtts/inference/test_torch_backend.py`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import ModuleType
from typing import Protocol

import torch
from torch import Tensor, nn

from machine import extras
from machine.devices.cuda_errors import NotFinite
from xtts.inference.alignment.guard import attention
from xtts.inference.alignment.guarded_piece import Utterance
from xtts.inference.alignment.heads import Array, Head
from xtts.inference.defaults import SamplingParams
from xtts.inference.speech import Voice
from xtts.model.adapter import MATRICES, Adapter, LowRank, add_adapters
from xtts.model.gpt import GPT, Block, KeyValueCache, QueryLog, SlotCaches, StepCache
from xtts.model.loading import Model
from xtts.model.shapes import NUM_LATENTS, GPTShape
from xtts.model.streaming_vocoder import ChunkedVocoder

_gelu = torch._C._nn.gelu  # as nn.functional.gelu, with less overhead
# MKL, which computes the audio head, splits 5, 6, 7, 9, 10 or 11 rows unevenly between two threads
# with different kernels, so the last bit of a row depends on its place. With 4, 8 or 12 rows it
# does not, and neither do the products of the layers (`xtts.model.quantization`).
ROW_MULTIPLE = 4
# By row. Other rows use the GPT without an adapter.
Adapters = Mapping[int, Adapter]
NO_ADAPTERS: Adapters = {}
# The operations of a block: first norm, attention's input and output projections, second norm, and
# the two layers of the feed-forward.
_Layer = tuple[Callable[[Tensor], Tensor], ...]

# Replaces a code if the logits are not finite.
NO_CODE = -1
_NOT_FINITE_MESSAGE = (
    "The model's output is not finite (NaN or infinite): its weights are damaged, or this device "
    "computes wrongly. Try an earlier epoch, or DEVICE=cpu."
)


class DecodingError(NotFinite):
    """The model's output is not finite."""


class TorchUtterance(Utterance):
    """An `Utterance` with PyTorch. code: the last code `[1]`, on the device; adapter: as in
    `Voice`; cache: its keys and values while it is in a slot, None if a graph holds them."""

    def __init__(
        self,
        gpt: GPT,
        rules: SamplingParams,
        random: torch.Generator,
        max_codes: int | None = None,
        heads: Sequence[Head] = (),
        adapter: Adapter | None = None,
    ) -> None:
        self.adapter = adapter
        self.code = torch.tensor([gpt.shape.audio_start], device=gpt.mel_head.weight.device)
        seen = torch.zeros(gpt.shape.audio_ids, dtype=torch.bool, device=self.code.device)
        super().__init__(gpt.shape, rules, random, max_codes, heads, seen)
        self.queries = QueryLog(layer for layer, _ in heads)
        self.cache: KeyValueCache | None = None

    def add_sampled(self, latent: Tensor, code: Tensor, code_value: int) -> None:
        """As `add_code`, with the code `[1]` on the device. NO_CODE ends it with an error."""
        self.code = code
        if code_value == NO_CODE:
            self.error = DecodingError(_NOT_FINITE_MESSAGE)
        else:
            self.add_code(latent, code_value)

    def attention_by_head(self) -> dict[Head, Array]:
        """As in `Utterance`."""
        layers = {layer: self.queries.queries_and_keys(layer) for layer in self.queries.layers}
        by_head: dict[Head, Array] = {}
        for layer, head in self.heads:
            queries, keys = layers[layer]
            by_head[layer, head] = attention(queries[:, head, None].numpy(), keys[head, None].numpy())
        return by_head


class DecodeStep:
    """The forward of a GPT with a cache. Uses the weights that `gpt` has when this is created.

    In float32 the results are identical to those of the GPT's modules. The calls, views and copies
    of their thirty layers take a fifth of the time of reading the weights (docs/develop/log.md).
    Nothing here reads a value from the device, so a CUDA graph can capture it (`extras.graphs`; for
    figures see docs/develop/gpu.md).
    """

    def __init__(self, gpt: GPT) -> None:
        self.gpt, transformer = gpt, gpt.gpt
        self._packed_shape = (-1, 3, transformer.heads, 1, transformer.width // transformer.heads)
        self._width = transformer.width
        # 16-bit weights have a 16-bit residual stream; input and output are float32.
        self._residual_type = transformer.ln_f.weight.dtype
        self._layers = [_layer(block) for block in transformer.h if isinstance(block, Block)]
        self._final_norms = _norm(transformer.ln_f), _norm(gpt.final_norm)
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
        x = x.to(self._residual_type)
        layers = self._layers_with(adapters)
        for number, (norm_1, project_in, project_out, norm_2, widen, narrow) in enumerate(layers):
            packed = project_in(norm_1(x)).view(self._packed_shape)
            x += project_out(cache.attend_next(number, packed).reshape(-1, self._width))
            x += narrow(_gelu(widen(norm_2(x)), approximate="tanh"))
        cache.advance(1)
        return self._outputs(x)

    def prefill(
        self, embedded: Tensor, cache: KeyValueCache, adapter: Adapter | None = None
    ) -> tuple[Tensor, Tensor]:
        """Positions `[rows, time, width]` into an empty cache -> as a step, after the last one.
        adapter: that of the only row."""
        x, time = embedded.to(self._residual_type, copy=True), embedded.shape[1]
        layers = self._layers_with({} if adapter is None else {0: adapter})
        for number, (norm_1, project_in, project_out, norm_2, widen, narrow) in enumerate(layers):
            packed = project_in(norm_1(x)).view(len(x), time, *self._packed_shape[1:3], -1)
            mixed = cache.attend_first(number, packed.permute(0, 2, 3, 1, 4))
            x += project_out(mixed.transpose(1, 2).reshape(x.shape))
            x += narrow(_gelu(widen(norm_2(x)), approximate="tanh"))
        cache.advance(time)
        return self._outputs(x[:, -1])

    def _outputs(self, x: Tensor) -> tuple[Tensor, Tensor]:
        transformer_norm, final_norm = self._final_norms
        latents = final_norm(transformer_norm(x).to(self._codes.dtype))
        return latents, self._head(latents)

    def _layers_with(self, adapters: Adapters) -> list[_Layer]:
        """The layers with these adapters, cached while the same utterances decode together."""
        cached_adapters, layers = self._adapted
        if adapters != cached_adapters:
            layers = [
                _with_adapters(layer, {row: adapter.matrices[number] for row, adapter in adapters.items()})
                for number, layer in enumerate(self._layers)
            ]
            self._adapted = adapters, layers
        return layers


def _with_adapters(layer: _Layer, rows: Mapping[int, Mapping[str, LowRank]]) -> _Layer:
    adapted_rows = {
        name: [(row, matrices[name]) for row, matrices in rows.items() if name in matrices]
        for name in MATRICES
    }
    norm_1, project_in, project_out, norm_2, widen, narrow = layer
    return (
        norm_1,
        add_adapters(project_in, adapted_rows["attn.c_attn"]),
        add_adapters(project_out, adapted_rows["attn.c_proj"]),
        norm_2,
        add_adapters(widen, adapted_rows["mlp.c_fc"]),
        add_adapters(narrow, adapted_rows["mlp.c_proj"]),
    )


def _layer(block: Block) -> _Layer:
    attention, feed_forward = block.attn, block.mlp
    return (
        _norm(block.ln_1),
        attention.c_attn.forward,
        attention.c_proj.forward,
        _norm(block.ln_2),
        feed_forward.c_fc.forward,
        feed_forward.c_proj.forward,
    )


def _norm(norm: nn.LayerNorm) -> Callable[[Tensor], Tensor]:
    return partial(
        torch.layer_norm,
        normalized_shape=norm.normalized_shape,
        weight=norm.weight,
        bias=norm.bias,
        eps=norm.eps,
    )


class DecodingSlots:
    """A fixed number of slots for utterances; used by one thread. Uses the weights that `gpt` has
    when this is created.

    layers: those of the heads that utterances may need.
    """

    def __init__(self, gpt: GPT, count: int, layers: Iterable[int] = ()) -> None:
        self.utterances: list[TorchUtterance | None] = [None] * count
        # Products always have all rows, so that the same kernel computes them.
        self._num_rows = -(-count // ROW_MULTIPLE) * ROW_MULTIPLE if count > ROW_MULTIPLE else count
        self._layers = frozenset(layers)
        self._step = DecodeStep(gpt)
        # Borrowed only while an utterance runs, so that other slots of the model can use them.
        self._graphs: GraphRows | None = None
        self._lease: RowsLease | None = None

    @property
    def num_free(self) -> int:
        """The number of further utterances that can enter."""
        return self.utterances.count(None)

    def enter(self, latents: Tensor, text: Tensor, utterance: TorchUtterance) -> int:
        """Prefills text ids `[n]` after conditioning latents `[1, 32, width]`, samples the first
        code, and returns the slot. Raises DecodingError."""
        slot = self.utterances.index(None)
        # Prefilled separately, because prefixes differ in length.
        utterance.cache = prefill(self._step, latents, text, utterance)
        if self.num_free == len(self.utterances):
            self._borrow_graphs(self._layers | {layer for layer, _ in utterance.heads})
        if self._graphs is not None:
            self._graphs.enter(slot, utterance.cache)
            utterance.cache = None
        self.utterances[slot] = utterance
        return slot

    def prepare(self) -> None:
        """Does now what would delay the first code; nothing without graphs."""
        self._borrow_graphs(self._layers)
        if self._graphs is not None:
            self._graphs.prepare()
            self._graphs = self._lease = None

    def _borrow_graphs(self, layers: Iterable[int]) -> None:
        gpt, count = self._step.gpt, len(self.utterances)
        if (graphs := speech_graphs(gpt)) is not None:
            self._lease = RowsLease()
            self._graphs = graphs.rows_of(gpt, count, tuple(sorted(layers)), self._lease)

    @torch.inference_mode()
    def step(self) -> bool:
        """Decodes one more code for every active slot; returns whether any was active.

        An utterance whose logits are not finite ends with an `error`; the others continue.
        """
        speaking = {
            slot: utterance
            for slot, utterance in enumerate(self.utterances)
            if utterance is not None and not utterance.done
        }
        if speaking:
            latents, logits = self._decode_rows(speaking)
            _sample_next_codes(
                list(speaking.values()),
                [latents[slot] for slot in speaking],
                torch.stack([logits[slot] for slot in speaking]),
            )
        return bool(speaking)

    def _decode_rows(self, speaking: dict[int, TorchUtterance]) -> tuple[Tensor, Tensor]:
        """Latents and logits of all rows after the last code of each. Unused rows compute code 0 at
        position 0, and their results are discarded."""
        device = self._step.gpt.mel_head.weight.device
        placeholder = torch.zeros(1, dtype=torch.long, device=device)
        rows = range(self._num_rows if self._graphs is None else self._graphs.num_rows)
        codes = torch.cat([speaking[row].code if row in speaking else placeholder for row in rows])
        code_counts = [len(speaking[row].codes) if row in speaking else 0 for row in rows]
        positions = torch.tensor(code_counts).to(device, non_blocking=True)
        adapters = {
            row: utterance.adapter for row, utterance in speaking.items() if utterance.adapter is not None
        }
        if self._graphs is not None:
            logs = {row: utterance.queries for row, utterance in speaking.items()}
            return self._graphs.step(codes, positions, adapters, logs)
        caches = [speaking[row].cache if row in speaking else None for row in rows]
        only_cache = caches[0] if len(caches) == 1 else None
        return self._step(codes, positions, only_cache or SlotCaches(caches), adapters)

    def leave(self, slot: int) -> None:
        """Frees a slot and its memory, even if the utterance is not done."""
        utterance, self.utterances[slot] = self.utterances[slot], None
        if utterance is not None:
            utterance.cache = None
        if self._graphs is not None:
            self._graphs.leave(slot)
        if self.num_free == len(self.utterances):
            self._graphs = self._lease = None


class GraphRows(Protocol):
    """Rows of an extra (SPEECH_GRAPHS in `machine.extras`), which replays their steps as CUDA graphs
    and keeps their keys and values."""

    num_rows: int

    def prepare(self) -> None:
        """Does now what would delay the first code."""

    def enter(self, row: int, filled: KeyValueCache) -> None:
        """Continues the utterance of this cache in a row."""

    def leave(self, row: int) -> None:
        """Frees a row."""

    def step(
        self, codes: Tensor, positions: Tensor, adapters: Adapters, logs: Mapping[int, QueryLog]
    ) -> tuple[Tensor, Tensor]:
        """As `DecodeStep`. logs: those of the utterances that continue, by row; the results of
        other rows are discarded."""


class RowsLease:
    """Keeps borrowed `GraphRows` in use as long as it lives."""


def speech_graphs(gpt: GPT) -> ModuleType | None:
    """The extra that has `GraphRows` for a GPT on a GPU; None without it."""
    on_gpu = gpt.mel_head.weight.device.type == "cuda"
    return extras.first("SPEECH_GRAPHS") if on_gpu else None


def slot_positions(shape: GPTShape) -> int:
    """The positions of a slot: latents, text and codes, and a few for warming up a graph."""
    return NUM_LATENTS + shape.text_positions + shape.audio_positions + 4


class TorchBackend:
    """Decodes up to `count` utterances with one step for all; used by one thread. layers: those of
    the alignment heads, if several utterances run at once."""

    arrays: ModuleType = torch

    def __init__(self, model: Model, count: int = 1, layers: Iterable[int] = ()) -> None:
        self.model = model
        self.num_slots = count
        self._slots = DecodingSlots(model.gpt, count, layers)

    @property
    def num_free(self) -> int:
        """As in `Backend`."""
        return self._slots.num_free

    def prepare(self) -> None:
        """As in `Backend`."""
        self._slots.prepare()

    def random(self, seed: int) -> torch.Generator:
        """As in `Backend`."""
        return torch.Generator(self.model.device).manual_seed(seed)

    def begin(
        self,
        voice: Voice,
        ids: Sequence[int],
        rules: SamplingParams,
        random: torch.Generator,
        max_codes: int | None,
        heads: Sequence[Head],
    ) -> TorchUtterance:
        """As in `Backend`."""
        utterance = TorchUtterance(self.model.gpt, rules, random, max_codes, heads, voice.adapter)
        self._slots.enter(voice.latents, torch.tensor(ids, device=self.model.device), utterance)
        return utterance

    def step(self, utterances: Sequence[TorchUtterance]) -> None:
        """As in `Backend`."""
        self._slots.step()

    def end(self, utterance: TorchUtterance) -> None:
        """As in `Backend`."""
        self._slots.leave(self._slots.utterances.index(utterance))

    def chunks(self, voice: Voice, speed: float = 1.0) -> ChunkedVocoder:
        """As in `Backend`."""
        vocoder = self.model.vocoder if voice.vocoder is None else voice.vocoder
        return ChunkedVocoder(vocoder, voice.speaker, speed)

    def check(self, chunk: Tensor) -> Tensor:
        """As in `Backend`."""
        chunk = chunk.float().cpu()
        if not bool(torch.isfinite(chunk).all()):
            raise DecodingError(
                "The vocoder's waveform is not finite: this device computes wrongly or the model's "
                "files are damaged. Try DEVICE=cpu."
            )
        return chunk


@torch.inference_mode()
def prefill(step: DecodeStep, latents: Tensor, text: Tensor, utterance: TorchUtterance) -> KeyValueCache:
    """Prefills text ids `[n]` after conditioning latents `[1, 32, width]` and samples the first
    code. Returns the cache, with capacity for all codes. Raises DecodingError."""
    gpt, capacity = step.gpt, NUM_LATENTS + len(text) + 2 + utterance.limit + 1
    cache = gpt.gpt.new_cache(1, capacity)
    cache.log = utterance.queries if utterance.heads else None
    embedded = torch.cat((gpt.prefix(latents, text), gpt.audio_input(utterance.code, 0)), dim=1)
    outputs = step.prefill(embedded, cache, utterance.adapter)
    utterance.queries.read_text(cache, NUM_LATENTS, NUM_LATENTS + len(text) + 2)
    _sample_next_codes([utterance], *outputs)
    if utterance.error is not None:
        # A new error, because the traceback of the old one would keep the utterance alive.
        raise DecodingError(str(utterance.error))
    return cache


def decode(
    gpt: GPT, latents: Tensor, pairs: Sequence[tuple[Tensor, TorchUtterance]], count: int = 1
) -> list[TorchUtterance]:
    """Decodes texts `[n]` to their ends, `count` at once, without guard or sound.

    The result of an utterance does not depend on the others, as long as `count` is the same. Raises
    DecodingError if the output is not finite.
    """
    layers = {layer for _, utterance in pairs for layer in utterance.queries.layers}
    slots, waiting = DecodingSlots(gpt, count, layers), list(pairs)
    while waiting or slots.num_free < count:
        while waiting and slots.num_free:
            slots.enter(latents, *waiting.pop(0))
        slots.step()
        for slot, utterance in enumerate(slots.utterances):
            if utterance is not None and utterance.done:
                slots.leave(slot)
                if utterance.error is not None:
                    raise DecodingError(str(utterance.error))
    return [utterance for _, utterance in pairs]


def _sample_next_codes(
    utterances: Sequence[TorchUtterance], latents: Sequence[Tensor] | Tensor, logits: Tensor
) -> None:
    """Samples a code for each utterance from its row of logits. All codes are read from the device
    at once, because each read waits for the GPU."""
    codes = sample(
        logits,
        torch.stack([utterance.seen for utterance in utterances]),
        [utterance.rules for utterance in utterances],
        [utterance.random for utterance in utterances],
    )
    for row, code_value in enumerate(codes.tolist()):
        utterances[row].add_sampled(latents[row], codes[row : row + 1], code_value)


def sample(
    logits: Tensor, seen: Tensor, rules: Sequence[SamplingParams], generators: Sequence[torch.Generator]
) -> Tensor:
    """Samples the next codes `[rows]`; `NO_CODE` if a row's logits are not finite.

    All rows share the kernels except for the draw, which uses one generator per utterance, so that
    its codes do not depend on the others.

    Args:
        logits: `[rows, audio_ids]`.
        seen: `[rows, audio_ids]`: the codes that were already used.
        rules: The sampling parameters of each row.
        generators: The generator of each row.
    """
    finite = torch.isfinite(logits).all(-1)
    # Drawing from NaN would trigger a device-side assert, which destroys the CUDA context.
    penalised, probabilities = sampling_probabilities(logits.nan_to_num(0.0, 0.0, 0.0), seen, rules)
    codes = torch.cat(
        [torch.multinomial(row, 1, generator=random) for row, random in zip(probabilities, generators)]
    )
    if any(rule.greedy for rule in rules):
        greedy = torch.tensor([rule.greedy for rule in rules]).to(codes.device, non_blocking=True)
        codes = torch.where(greedy, penalised.argmax(-1), codes)
    return torch.where(finite, codes, NO_CODE)


def sampling_probabilities(
    logits: Tensor, seen: Tensor, rules: Sequence[SamplingParams]
) -> tuple[Tensor, Tensor]:
    """Logits `[rows, audio_ids]` after CTRL's repetition penalty, and sampling probabilities.

    The penalty makes used codes less likely (https://arxiv.org/abs/1909.05858). The probabilities
    apply the temperature, then top-k, then the smallest set with a sum of `top_p`.
    """
    num_ids = logits.shape[-1]
    top_ks = [rule.top_k if 0 < rule.top_k < num_ids else num_ids for rule in rules]
    parameters = [
        [rule.repetition_penalty for rule in rules],
        [max(rule.temperature, 1e-5) for rule in rules],
        [1 - rule.top_p if rule.top_p < 1.0 else -1.0 for rule in rules],
        top_ks,
    ]
    on_device = torch.tensor(parameters).to(logits.device, non_blocking=True)[:, :, None]
    penalties, temperatures, tail_limits, counts = on_device.unbind()
    logits = logits.float()
    lowered = torch.where(logits < 0, logits * penalties, logits / penalties)
    penalised = torch.where(seen, lowered, logits)
    scaled = penalised / temperatures
    if min(top_ks) < num_ids:
        kth_highest = scaled.topk(max(top_ks)).values.gather(-1, counts.long() - 1)
        scaled = scaled.masked_fill(scaled < kth_highest, -torch.inf)
    ascending, order = scaled.sort(descending=False)
    # The likeliest code always stays, as in Hugging Face's TopPLogitsWarper.
    is_in_tail = ascending.softmax(-1).cumsum(-1) <= tail_limits
    is_in_tail[:, -1] = False
    scaled = scaled.masked_fill(torch.zeros_like(is_in_tail).scatter(-1, order, is_in_tail), -torch.inf)
    return penalised, scaled.softmax(-1)
