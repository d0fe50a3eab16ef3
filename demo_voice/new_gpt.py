"""A GPT with GPT-2's random initialisation, for the pretraining of the embedded voice."""

import torch
from torch import nn

from xtts.model.gpt import GPT, Transformer
from xtts.model.shapes import GPTShape


def new_gpt(shape: GPTShape, seed: int) -> GPT:
    """A GPT with GPT-2's random initialisation, determined by the seed; does not change torch's
    random state."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        gpt = GPT(shape)
        initialise(gpt.gpt)
        tables = (gpt.text_embedding, gpt.mel_embedding)
        for table in (*tables, gpt.text_pos_embedding.emb, gpt.mel_pos_embedding.emb):
            nn.init.normal_(table.weight, std=0.02)
    return gpt


@torch.no_grad()
def initialise(transformer: Transformer, spread: float = 0.02) -> None:
    """GPT-2's initialisation: normal weights, with the residual outputs divided by sqrt(2 *
    layers)."""
    for name, parameter in transformer.named_parameters():
        if name.endswith("c_proj.weight"):
            parameter.normal_(0.0, spread / (2 * len(transformer.h)) ** 0.5)
        elif parameter.dim() == 2:
            parameter.normal_(0.0, spread)
        elif name.endswith("bias"):
            parameter.zero_()
