"""Measures with PyTorch which attention heads follow the text; `xtts.inference.alignment.heads`
chooses."""

import itertools

import torch

from xtts.inference.alignment.heads import MOST_CODES, TEXTS, Head, Spoken, choose
from xtts.inference.decoding import DecodingState, iterate_codes
from xtts.inference.voice import Voice
from xtts.model.loading import Model


def measured_heads(model: Model, voice: Voice) -> tuple[Head, ...]:
    """The heads that follow the text while a few sentences are spoken with a voice."""
    return choose([spoken(model, voice, text) for text in TEXTS])


def spoken(model: Model, voice: Voice, text: str) -> Spoken:
    """What every head gave to a text while it was spoken."""
    shape, language = model.config.gpt, model.config.languages
    piece = model.tokenizer.split(text, "en" if "en" in language else language[0])[0]
    everyone = tuple(itertools.product(range(shape.layers), range(shape.heads)))
    generator = torch.Generator(model.device).manual_seed(0)
    utterance = DecodingState(model.gpt, model.config.decoding, generator, MOST_CODES, everyone)
    ids = torch.tensor(piece.ids, device=model.device)
    for _ in iterate_codes(model.gpt, voice.latents, ids, utterance):
        pass
    return utterance.attention_by_head(), model.tokenizer.spoken(piece.ids)
