"""Decoding: sampling codes with repetition penalty, temperature, top-k and top-p.

The latent of each code is kept from the step that made it; Coqui runs the whole GPT a second time
to get the same numbers. Order of the rules as in Hugging Face's `generate`: repetition penalty,
temperature, top-k, top-p.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from machine.devices.cuda_errors import NotFinite
from xtts.inference import cuda_graphs
from xtts.inference.alignment.path import attention
from xtts.inference.decode_step import DecodeStep
from xtts.model.config import SamplingParams
from xtts.model.gpt import GPT
from xtts.model.kv_cache import KeyValueCache, QueryLog
from xtts.model.shapes import NUM_LATENTS, PLACEHOLDER_ID

# In the place of a code, where the logits that it would be drawn from are not finite.
NO_CODE = -1
NOT_FINITE = (
    "The model's output is not a number (NaN or infinite): its weights are damaged, or this device "
    "computes wrongly. Try an earlier epoch, or DEVICE=cpu."
)


class DecodingError(NotFinite):
    """The model's output is not finite."""


@dataclass(frozen=True)
class DecodingResult:
    """codes [n] without STOP; latents [n + 1, width] (the last one decided to stop), or [n, width]
    when the model was cut off at its most codes."""

    codes: Tensor
    latents: Tensor
    stopped: bool


class DecodingState:
    """One sentence while it is being decoded: what was said, what comes next.

    Looks at nothing but its own row, so that it makes no difference who decodes beside it. heads:
    layer and number of those whose attention to the text is wanted afterwards.
    """

    def __init__(
        self,
        gpt: GPT,
        decoding: SamplingParams,
        generator: torch.Generator,
        max_codes: int | None = None,
        heads: Sequence[tuple[int, int]] = (),
    ) -> None:
        shape = gpt.shape
        self.heads = tuple(heads)
        self.queries = QueryLog(layer for layer, _ in heads)
        self.decoding = decoding
        self.generator = generator
        self.limit = min(max_codes or shape.max_codes, shape.max_codes)
        self.stop_code = shape.audio_stop
        self.code = torch.tensor([shape.audio_start], device=gpt.mel_head.weight.device)
        self.seen = torch.zeros(shape.audio_ids, dtype=torch.bool, device=self.code.device)
        self.seen[[PLACEHOLDER_ID, shape.audio_start]] = True
        self.codes: list[Tensor] = []
        self.latents: list[Tensor] = []
        self.stopped = False
        self.error: DecodingError | None = None

    @property
    def done(self) -> bool:
        """Whether it said STOP, or as many codes as it may, or its output is not finite."""
        return self.stopped or self.error is not None or len(self.codes) >= self.limit

    @property
    def position(self) -> int:
        """The audio position of `code`, the last one chosen."""
        return len(self.codes)

    def take(self, latent: Tensor, logits: Tensor) -> None:
        """Chooses the next code from logits `[audio_ids]`, whose latent is `[width]`.

        Raises DecodingError when the logits are not finite.
        """
        self.latents.append(latent)
        self.code = sample(logits, self.seen, self.decoding, self.generator)
        self.settle(int(self.code))

    def chose(self, latent: Tensor, code: Tensor) -> None:
        """The first half of `take`, where somebody else has chosen `[1]`."""
        self.latents.append(latent)
        self.code = code

    def settle(self, code: int) -> None:
        """The second half: what was chosen, on the host. Raises DecodingError."""
        if code == NO_CODE:
            raise DecodingError(NOT_FINITE)
        self.stopped = code == self.stop_code
        if not self.stopped:
            self.codes.append(self.code)
            self.seen[code] = True

    def said(self) -> list[int]:
        """Its codes so far, without STOP, on the host."""
        found: list[int] = torch.cat(self.codes).tolist() if self.codes else []
        return found

    def decoded(self) -> DecodingResult:
        """Everything said so far."""
        codes = torch.cat(self.codes) if self.codes else self.code[:0]
        return DecodingResult(codes, torch.stack(self.latents), self.stopped)

    def attention(self) -> "np.ndarray[Any, Any] | None":
        """What `heads` gave to the text, `[latents, positions]`; None without heads, or where a
        recorded step had no room for their queries. As many rows as there are latents: the last
        one of an utterance that stopped chose STOP."""
        if not self.heads or self.queries.count != len(self.latents):
            return None
        found: np.ndarray[Any, Any] = np.mean(list(self.attention_by_head().values()), axis=0)
        return found

    def attention_by_head(self) -> "dict[tuple[int, int], np.ndarray[Any, Any]]":
        """As `attention`, of each head by itself."""
        layers = {layer: self.queries.of(layer) for layer in self.queries.layers}
        return {
            (layer, head): attention(
                layers[layer][0][:, head, None].numpy(), layers[layer][1][head, None].numpy()
            )
            for layer, head in self.heads
        }


@torch.inference_mode()
def prefill(gpt: GPT, latents: Tensor, text: Tensor, utterance: DecodingState) -> KeyValueCache:
    """Reads text ids `[n]` behind conditioning latents `[1, 32, width]` and takes the first code;
    returns the cache, with room for all codes to come."""
    capacity = NUM_LATENTS + len(text) + 2 + utterance.limit + 1
    cache = gpt.gpt.new_cache(1, capacity)
    cache.log = utterance.queries if utterance.heads else None
    embedded = torch.cat((gpt.prefix(latents, text), gpt.audio_input(utterance.code, 0)), dim=1)
    latent, logits = gpt.prefill(embedded, cache)
    utterance.queries.read_text(cache, NUM_LATENTS, NUM_LATENTS + len(text) + 2)
    utterance.take(latent[0], logits[0])
    return cache


@torch.inference_mode()
def iterate_codes(
    gpt: GPT, latents: Tensor, text: Tensor, utterance: DecodingState
) -> Generator[DecodingState, None, None]:
    """Yields `utterance` after each of its steps, until it is done."""
    cache = prefill(gpt, latents, text, utterance)
    yield utterance
    graphed = cuda_graphs.graphed_step(gpt, layers=utterance.queries.layers)
    place = torch.zeros_like(utterance.code)
    step = DecodeStep(gpt)
    try:
        if graphed is not None:
            graphed.enter(0, cache)
        while not utterance.done:
            place.fill_(utterance.position)
            if graphed is None:
                latent, logits = step(utterance.code, place, cache)
            else:
                latent, logits = (found.clone() for found in graphed(utterance.code, place))
                graphed.caches.tell(0, utterance.queries)
            utterance.take(latent[0], logits[0])
            yield utterance
    finally:
        # Also where nobody asks for the rest: until then no other utterance has this cache.
        if graphed is not None:
            graphed.release()


def decode(
    gpt: GPT,
    latents: Tensor,
    text: Tensor,
    decoding: SamplingParams,
    generator: torch.Generator,
    *,
    max_codes: int | None = None,
) -> DecodingResult:
    """Codes for text ids `[n]`, spoken with conditioning latents `[1, 32, width]`.

    Raises DecodingError when the logits are not finite: drawing from them would be a device-side
    assert on a GPU, which kills the context.
    """
    utterance = DecodingState(gpt, decoding, generator, max_codes)
    for _ in iterate_codes(gpt, latents, text, utterance):
        pass
    return utterance.decoded()


def sample(
    logits: Tensor, seen: Tensor, decoding: SamplingParams, generator: torch.Generator
) -> Tensor:
    """The next code `[1]` from logits `[audio_ids]`; `seen` [audio_ids] marks what was said.

    Raises DecodingError where they are not finite; on a GPU, which would be waited for, the code is
    `NO_CODE` then.
    """
    if waits_for_nothing(logits):
        if not bool(torch.isfinite(logits).all()):
            raise DecodingError(NOT_FINITE)
        return _drawn(logits, seen, decoding, generator)
    finite = torch.isfinite(logits).all()
    # Drawing from NaN would be a device-side assert, which kills the context.
    code = _drawn(logits.nan_to_num(0.0, 0.0, 0.0), seen, decoding, generator)
    return torch.where(finite, code, NO_CODE)


def sample_rows(
    logits: Tensor,
    seen: Tensor,
    rules: Sequence[SamplingParams],
    generators: Sequence[torch.Generator],
) -> Tensor:
    """`sample` of several utterances at once, as a GPU does it: codes `[rows]` from logits and
    `seen` `[rows, audio_ids]`.

    A launch serves all rows, but for the draw, whose generator is the utterance's own: what it says
    does not depend on who else is there.
    """
    ids, finite = logits.shape[-1], torch.isfinite(logits).all(-1)
    tops = [one.top_k if 0 < one.top_k < ids else ids for one in rules]
    figures = [
        [one.repetition_penalty for one in rules], [max(one.temperature, 1e-5) for one in rules],
        [1 - one.top_p if one.top_p < 1.0 else -1.0 for one in rules], tops,
    ]  # fmt: skip
    found = torch.tensor(figures).to(logits.device, non_blocking=True)[:, :, None]
    penalties, temperatures, limits, counts = found.unbind()
    logits = logits.nan_to_num(0.0, 0.0, 0.0).float()
    lowered = torch.where(logits < 0, logits * penalties, logits / penalties)
    penalised = torch.where(seen, lowered, logits)
    scaled = penalised / temperatures
    if min(tops) < ids:
        least = scaled.topk(max(tops)).values.gather(-1, counts.long() - 1)
        scaled = scaled.masked_fill(scaled < least, -torch.inf)
    ordered, order = scaled.sort(descending=False)
    out = ordered.softmax(-1).cumsum(-1) <= limits
    out[:, -1] = False
    scaled = scaled.masked_fill(torch.zeros_like(out).scatter(-1, order, out), -torch.inf)
    chances = scaled.softmax(-1)
    drawn = [torch.multinomial(row, 1, generator=own) for row, own in zip(chances, generators)]
    codes = torch.cat(drawn)
    if any(one.greedy for one in rules):
        greedy = torch.tensor([one.greedy for one in rules]).to(codes.device, non_blocking=True)
        codes = torch.where(greedy, penalised.argmax(-1), codes)
    return torch.where(finite, codes, NO_CODE)


def waits_for_nothing(like: Tensor) -> bool:
    """Whether a value can be looked at for nothing: on a CPU."""
    return like.device.type == "cpu"


def _drawn(
    logits: Tensor, seen: Tensor, decoding: SamplingParams, generator: torch.Generator
) -> Tensor:
    logits = repetition_penalty(logits.float(), seen, decoding.repetition_penalty)
    if decoding.greedy:
        return logits.argmax(-1, keepdim=True)
    chances = torch.softmax(top_k_top_p(logits, decoding), dim=-1)
    return torch.multinomial(chances, 1, generator=generator)


def repetition_penalty(logits: Tensor, seen: Tensor, penalty: float) -> Tensor:
    """CTRL's repetition penalty (https://arxiv.org/abs/1909.05858): said codes get less likely."""
    if penalty == 1.0:
        return logits
    lowered = torch.where(logits < 0, logits * penalty, logits / penalty)
    return torch.where(seen, lowered, logits)


def top_k_top_p(logits: Tensor, decoding: SamplingParams) -> Tensor:
    """Temperature, then the top-k, then the smallest set that holds `top_p` of the chances."""
    logits = logits / max(decoding.temperature, 1e-5)
    if 0 < decoding.top_k < logits.shape[-1]:
        least = logits.topk(decoding.top_k).values[-1]
        logits = logits.masked_fill(logits < least, -torch.inf)
    if decoding.top_p < 1.0:
        ordered, order = logits.sort(descending=False)
        # The best one always stays, as in Hugging Face's TopPLogitsWarper.
        out = ordered.softmax(-1).cumsum(-1) <= 1 - decoding.top_p
        out[-1] = False
        logits = logits.masked_fill(torch.zeros_like(out).scatter(0, order, out), -torch.inf)
    return logits
