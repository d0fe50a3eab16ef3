"""A GPT with random weights that sometimes says STOP, and requests that all differ."""

from types import SimpleNamespace

import torch
from torch import Tensor

from demo_voice.new_gpt import new_gpt
from xtts.inference.defaults import SamplingParams
from xtts.inference.torch_backend import TorchUtterance, decode
from xtts.model.gpt import GPT, to_coqui
from xtts.model.loading import load_gpt
from xtts.model.shapes import NUM_LATENTS, GPTShape

SHAPE = GPTShape(
    text_ids=40,
    text_start=39,
    layers=3,
    width=64,
    heads=4,
    audio_ids=66,
    audio_start=64,
    audio_stop=65,
    max_text_tokens=40,
    max_audio_tokens=60,
)
RULES = SamplingParams(temperature=1.2, top_k=30, top_p=0.9, repetition_penalty=2.0)


def speaking(kind: str = "fp32") -> GPT:
    state = to_coqui(new_gpt(SHAPE, seed=3).state_dict())
    gpt = load_gpt(state, SimpleNamespace(gpt=SHAPE), kind=kind).eval().requires_grad_(False)
    # With random weights all logits are similar; this spreads them.
    gpt.mel_head.weight.mul_(8.0)
    return gpt


def asked(number: int) -> tuple[Tensor, Tensor]:
    """(latents, text) of a request."""
    generator = torch.Generator().manual_seed(number)
    latents = torch.randn(1, NUM_LATENTS, SHAPE.width, generator=generator)
    return latents, torch.randint(1, 38, (min(38, 3 + 5 * number),), generator=generator)


def utterance(gpt: GPT, number: int, *more: object) -> TorchUtterance:
    return TorchUtterance(gpt, RULES, torch.Generator().manual_seed(number), *more)


def said_by(gpt: GPT, number: int, count: int = 1) -> TorchUtterance:
    """The utterance of a request alone in one of `count` slots."""
    latents, text = asked(number)
    return decode(gpt, latents, [(text, utterance(gpt, number))], count)[0]
