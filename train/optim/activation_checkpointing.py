"""GRADIENT_CHECKPOINTING: recomputes a block's activations instead of storing them.

Chen et al. 2016 (https://arxiv.org/abs/1604.06174): only the input of each block is kept, and the
backward pass runs the block forward once more, with the same dropout. This takes about a third more
arithmetic and, at XTTS-v2's size, a tenth of the memory for activations. The results are the same,
bit for bit.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from train.memory.estimate import MemoryEstimate
from xtts.model.gpt import GPT

# auto: blocks are recomputed if the longest clip alone takes more than this share of the free
# memory.
LARGEST_SHARE = 0.7


def checkpoint_activations(gpt: GPT) -> None:
    """From now on, the transformer's blocks keep only their inputs in training."""
    for block in gpt.gpt.h:
        _recomputed(block)


def chosen(setting: str, footprint: MemoryEstimate, room_bytes: int | None) -> tuple[bool, str]:
    """Resolves GRADIENT_CHECKPOINTING, with the reason. room_bytes: memory for a step; None =
    unknown."""
    if setting != "auto":
        return setting == "on", f"GRADIENT_CHECKPOINTING={setting}"
    if room_bytes is None:
        return False, "the memory is unknown"
    share = footprint.total_bytes / room_bytes
    reason = (
        f"the longest clip takes about {footprint.total_bytes / 1e9:.1f} of "
        f"{room_bytes / 1e9:.1f} GB"
    )
    return share > LARGEST_SHARE, reason


def _recomputed(block: nn.Module) -> None:
    forward: Callable[..., Any] = block.forward

    def twice(*args: Any, **kwargs: Any) -> Any:
        if not (block.training and torch.is_grad_enabled()):
            return forward(*args, **kwargs)
        return checkpoint(forward, *args, use_reentrant=False, preserve_rng_state=True, **kwargs)

    # Set on the instance, so that the module's names, state and `torch.compile` are unchanged.
    block.forward = twice
