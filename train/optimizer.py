"""How far a step goes: AdamW's numbers and groups, the rate by the step, the seed of a step."""

import hashlib
from typing import Any

from torch import nn

from xtts.gpt import GPT

# AdamW as in Coqui's recipe (recipes/ljspeech/xtts_v2/train_gpt_xtts.py).
ADAM_BETAS = (0.9, 0.96)
ADAM_EPSILON = 1e-8
# XTTS-v2's learning rate there; small models name their own in config.json.
XTTS_LEARNING_RATE = 5e-6
# Behind the warm-up the rate holds for so many steps, then falls with 1/sqrt(step). It depends on
# the step alone, so that a longer NUM_EPOCHS continues a run instead of changing it.
HOLD_STEPS = 1000


def schedule(step: int, warmup_steps: int) -> float:
    """The share of the peak rate at `step` (from 0): linear warm-up, hold, inverse square root."""
    warm = min(1.0, (step + 1) / max(1, warmup_steps))
    hold = max(HOLD_STEPS, warmup_steps)
    return warm * min(1.0, (hold / (step + 1)) ** 0.5)


def weight_groups(gpt: GPT, weight_decay: float) -> list[dict[str, Any]]:
    """Weight decay on matrices only; not on biases, norms and embeddings, as in Coqui's recipe."""
    spared = {
        id(parameter)
        for module in gpt.modules()
        if isinstance(module, nn.Embedding | nn.LayerNorm | nn.GroupNorm)
        for parameter in module.parameters()
    }
    decayed: list[nn.Parameter] = []
    kept: list[nn.Parameter] = []
    for name, parameter in gpt.named_parameters():
        matrix = parameter.dim() > 1 and id(parameter) not in spared and "latents" not in name
        (decayed if matrix else kept).append(parameter)
    return [
        {"params": decayed, "weight_decay": weight_decay},
        {"params": kept, "weight_decay": 0.0},
    ]


def mixed(seed: int, step: int) -> int:
    """One 63-bit number from both, so that neighbouring seeds share no step."""
    digest = hashlib.sha256(f"{seed}/{step}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
