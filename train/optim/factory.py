"""OPTIMIZER: builds adamw or adamw8bit."""

from typing import Any

import torch

from train.optim.eight_bit import AdamW8bit
from train.optim.optimizer import ADAM_BETAS, ADAM_EPSILON


def new_optimizer(
    name: str, groups: list[dict[str, Any]], learning_rate: float, *, fused: bool = True
) -> torch.optim.Optimizer:
    """OPTIMIZER: adamw, or adamw8bit (train.optim.eight_bit)."""
    if name == "adamw8bit":
        return AdamW8bit(groups, learning_rate)
    return torch.optim.AdamW(
        groups, lr=learning_rate, betas=ADAM_BETAS, eps=ADAM_EPSILON, fused=fused
    )
