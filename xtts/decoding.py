"""The decode loop: text and a voice's latents become codes, one at a time.

The latent of each code is kept from the step that made it; Coqui runs the whole GPT a second time
to get the same numbers. Order of the rules as in Hugging Face's `generate`: repetition penalty,
temperature, top-k, top-p.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from xtts.conditioning import NUM_LATENTS
from xtts.errors import SotaqueError
from xtts.gpt import GPT
from xtts.sizes import Decoding

# Coqui fills the prefix with this id, and its repetition penalty sees it.
PLACEHOLDER_ID = 1


class DecodingError(SotaqueError):
    """The model said something that is no number, or nothing at all."""


@dataclass(frozen=True)
class Decoded:
    """codes [n] without STOP; latents [n + 1, width] (the last one decided to stop), or [n, width]
    when the model was cut off at its most codes."""

    codes: Tensor
    latents: Tensor
    stopped: bool


@torch.inference_mode()
def decode(
    gpt: GPT,
    latents: Tensor,
    text: Tensor,
    decoding: Decoding,
    generator: torch.Generator,
    *,
    max_codes: int | None = None,
) -> Decoded:
    """Codes for text ids `[n]`, spoken with conditioning latents `[1, 32, width]`.

    Raises DecodingError when the logits are not finite: drawing from them would be a device-side
    assert on a GPU, which kills the context.
    """
    shape = gpt.shape
    limit = min(max_codes or shape.max_codes, shape.max_codes)
    cache = gpt.gpt.new_cache(1, NUM_LATENTS + len(text) + 2 + limit + 1)
    code = torch.tensor([shape.audio_start], device=text.device)
    seen = torch.zeros(shape.audio_ids, dtype=torch.bool, device=text.device)
    seen[[PLACEHOLDER_ID, shape.audio_start]] = True
    embedded = torch.cat((gpt.prefix(latents, text), gpt.audio_input(code, 0)), dim=1)

    codes: list[Tensor] = []
    kept: list[Tensor] = []
    for position in range(1, limit + 1):
        latent, logits = gpt.step(embedded, cache)
        kept.append(latent)
        code = choose(logits[0], seen, decoding, generator)
        if int(code) == shape.audio_stop:
            break
        codes.append(code)
        seen[code] = True
        embedded = gpt.audio_input(code, position)
    stopped = len(kept) > len(codes)
    found = torch.cat(codes) if codes else text.new_empty(0)
    return Decoded(found, torch.cat(kept), stopped)


def choose(logits: Tensor, seen: Tensor, decoding: Decoding, generator: torch.Generator) -> Tensor:
    """The next code `[1]` from logits `[audio_ids]`; `seen` [audio_ids] marks what was said."""
    if not bool(torch.isfinite(logits).all()):
        raise DecodingError(
            "The model's output is not a number (NaN or infinite): its weights are damaged, or "
            "this device computes wrongly. Try an earlier epoch, or DEVICE=cpu."
        )
    logits = penalised(logits.float(), seen, decoding.repetition_penalty)
    if decoding.greedy:
        return logits.argmax(-1, keepdim=True)
    chances = torch.softmax(filtered(logits, decoding), dim=-1)
    return torch.multinomial(chances, 1, generator=generator)


def penalised(logits: Tensor, seen: Tensor, penalty: float) -> Tensor:
    """CTRL's repetition penalty (https://arxiv.org/abs/1909.05858): said codes get less likely."""
    if penalty == 1.0:
        return logits
    lowered = torch.where(logits < 0, logits * penalty, logits / penalty)
    return torch.where(seen, lowered, logits)


def filtered(logits: Tensor, decoding: Decoding) -> Tensor:
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
