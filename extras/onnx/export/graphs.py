"""The exported graphs as torch modules: step, conditioning, vocoder, source, speaker.

The transformer is `xtts.model.gpt`'s, with a cache that takes the past as inputs and
returns the new keys and values. Keys are transposed ([.., head_width, time]), so that a step can
multiply with them directly. The past is neither copied nor retransposed; the caller stores it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from xtts.model.gpt import GPT, AttentionLayout
from xtts.model.source_filter import SourceFilter
from xtts.model.vocoder import SpeakerEncoder, Vocoder

# Added to the scores of empty places. With -inf, a row with only empty places would become NaN.
EMPTY_SCORE = -1e30


@dataclass
class GraphCache(AttentionLayout):
    """A cache like `xtts.model.gpt.KeyValueCache`, for tracing: the past is an input, and the
    new keys and values are collected. The caller of the graph counts positions.

    Attributes:
        past_keys: For each layer `[batch, heads, head_width, places]`.
        past_values: For each layer `[batch, heads, places, head_width]`.
        bias: `[batch, places]`, 0 for a place in use, otherwise EMPTY_SCORE.
        time: The number of new positions.
        queries, keys, values: The new ones, for each layer.
    """

    past_keys: list[Tensor]
    past_values: list[Tensor]
    bias: Tensor
    time: int
    head_width: int
    queries: list[Tensor] = field(default_factory=list)
    keys: list[Tensor] = field(default_factory=list)
    values: list[Tensor] = field(default_factory=list)

    def __post_init__(self) -> None:
        # Computed once for all layers, to keep shape arithmetic out of the step.
        future = torch.full((self.time, self.time), EMPTY_SCORE).triu(1)
        past = self.bias[:, None].expand(-1, self.time, -1)
        self._bias = torch.cat((past, future.expand(self.bias.shape[0], -1, -1)), -1)[:, None]
        self._num_places = self.bias.shape[1]

    def attend(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        transposed = keys.transpose(2, 3)
        self.keys.append(transposed)
        self.values.append(values)
        self.queries.append(queries[:, :, -1])
        queries = queries * self.head_width**-0.5
        scores = torch.cat((queries @ self.past_keys[layer], queries @ transposed), dim=-1)
        weights = (scores + self._bias).softmax(-1)
        from_past = weights[..., : self._num_places] @ self.past_values[layer]
        return from_past + weights[..., self._num_places :] @ values


class StepGraph(nn.Module):
    """A step of any number of positions after a past of any length, for the text and the codes."""

    def __init__(self, gpt: GPT) -> None:
        super().__init__()
        self.gpt = gpt.gpt
        self.final_norm = gpt.final_norm
        self.mel_head = gpt.mel_head

    def forward(self, embedded: Tensor, bias: Tensor, *past: Tensor) -> tuple[Tensor, ...]:
        """Positions [batch, time, width], the bias of the past, keys and values of each layer ->
        latent [batch, width] and logits [batch, audio_ids] of the last position; new keys
        [layers, batch, heads, head_width, time]; new values [layers, batch, heads, time, ..];
        queries [layers, batch, heads, head_width] of the last position, from which its attention
        can be computed."""
        time, head_width = embedded.shape[1], self.gpt.width // self.gpt.heads
        cache = GraphCache(list(past[0::2]), list(past[1::2]), bias, time, head_width)
        latent = self.final_norm(self.gpt(embedded, cache)[:, -1])
        new = (torch.stack(part) for part in (cache.keys, cache.values, cache.queries))
        return latent, self.mel_head(latent), *new


class PartsGraph(nn.Module):
    """Some modules of a model, and a function that computes with them."""

    def __init__(self, compute: Callable[..., Tensor], **parts: nn.Module) -> None:
        super().__init__()
        self.compute = compute
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, *arguments: Tensor) -> Tensor:
        return self.compute(*arguments)


@dataclass(frozen=True)
class ExportGraph:
    """A module and the arguments of its trace.

    Attributes:
        arguments: The arguments of the module.
        inputs, outputs: The names of the graph's tensors.
        axes: The names of the dynamic axes of each tensor.
    """

    module: nn.Module
    arguments: tuple[Tensor, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    axes: Mapping[str, Mapping[int, str]]


def step_graph(gpt: GPT) -> ExportGraph:
    """Inputs `embedded`, `bias`, `past_keys_0`, `past_values_0`, …; outputs `latent`, `logits`,
    `keys`, `values`, `queries`."""
    shape = gpt.shape
    batch, time, places, head_width = 2, 3, 4, shape.width // shape.heads
    keys = torch.zeros(batch, shape.heads, head_width, places)
    values = torch.zeros(batch, shape.heads, places, head_width)
    names = [f"past_{part}_{layer}" for layer in range(shape.layers) for part in ("keys", "values")]
    transposed = {0: "batch", 3: "places"}
    axes: dict[str, Mapping[int, str]] = {
        "embedded": {0: "batch", 1: "time"},
        "bias": {0: "batch", 1: "places"},
        "latent": {0: "batch"},
        "logits": {0: "batch"},
        "keys": {1: "batch", 4: "time"},
        "values": {1: "batch", 3: "time"},
        "queries": {1: "batch"},
    }
    axes |= {name: transposed if "keys" in name else {0: "batch", 2: "places"} for name in names}
    return ExportGraph(
        StepGraph(gpt),
        (torch.zeros(batch, time, shape.width), torch.zeros(batch, places), *(keys, values) * shape.layers),
        ("embedded", "bias", *names),
        ("latent", "logits", "keys", "values", "queries"),
        axes,
    )


def conditioning_graph(gpt: GPT) -> ExportGraph:
    """Input `mel` [batch, 80, frames]; output `latents` [batch, 32, width]."""
    encoder, perceiver = gpt.conditioning_encoder, gpt.conditioning_perceiver
    module = PartsGraph(
        lambda mel: perceiver(encoder(mel).transpose(1, 2)), encoder=encoder, perceiver=perceiver
    )
    axes = {"mel": {0: "batch", 2: "frames"}, "latents": {0: "batch"}}
    return ExportGraph(module, (torch.randn(2, 80, 40),), ("mel",), ("latents",), axes)


def vocoder_graph(vocoder: Vocoder) -> ExportGraph:
    """The vocoder after its interpolation. Inputs `steps` [batch, rows, steps] and `speaker`
    [batch, 512, 1]; output `samples` [batch, samples]."""
    decoder = vocoder.waveform_decoder
    module = PartsGraph(lambda steps, speaker: decoder(steps, g=speaker)[:, 0], decoder=decoder)
    axes = {"steps": {0: "batch", 2: "steps"}, "speaker": {0: "batch"}, "samples": {0: "batch", 1: "samples"}}
    arguments = (torch.rand(2, vocoder.rows, 20), torch.randn(2, vocoder.speaker_width, 1))
    return ExportGraph(module, arguments, ("steps", "speaker"), ("samples",), axes)


def source_graph(decoder: SourceFilter) -> ExportGraph:
    """Input `latents` [1, width, steps] of an utterance, and `speaker` [1, 512, 1] if its pitch
    follows the speaker; output `steps` [1, rows, steps]."""
    module = PartsGraph(lambda latents, speaker=None: decoder.excite(latents, speaker), decoder=decoder)
    names: tuple[str, ...] = ("latents",)
    arguments: tuple[torch.Tensor, ...] = (torch.randn(1, decoder.width, 20),)
    if decoder.pitch.speaker is not None:
        names, arguments = (*names, "speaker"), (*arguments, torch.randn(1, decoder.speaker_width, 1))
    axes = {"latents": {2: "steps"}, "steps": {2: "steps"}}
    return ExportGraph(module, arguments, names, ("steps",), axes)


def speaker_graph(encoder: SpeakerEncoder) -> ExportGraph:
    """Input `mel` [batch, 64, frames] in power, before the logarithm; output `speaker`
    [batch, 512, 1] of unit length."""
    module = PartsGraph(lambda mel: encoder.net(mel, l2_norm=True)[:, :, None], net=encoder.net)
    axes = {"mel": {0: "batch", 2: "frames"}, "speaker": {0: "batch"}}
    return ExportGraph(module, (torch.rand(2, 64, 60),), ("mel",), ("speaker",), axes)
