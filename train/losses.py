"""The terms of the training loss, whose weighted sum is minimised.

A new term is a row here, and what computes it in `xtts.model.gpt.GPT.losses`. Steps, validation,
the console, metrics.jsonl, TensorBoard and checkpoints' manifests go by the rows.
"""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from machine.errors import SotaqueError
from train.defaults import AUDIO_LOSS_WEIGHT, TEXT_LOSS_WEIGHT
from xtts.model.gpt import Losses
from xtts.model.packed_batch import PackedBatch


class LossTerm(NamedTuple):
    """A mean over targets, in nats a token.

    Attributes:
        name: In files and curves; on the console with spaces.
        weight: In the sum.
        mean: What the model computed of it.
        num_targets: How many targets of a batch it is the mean of.
    """

    name: str
    weight: float
    mean: Callable[[Losses], Tensor]
    num_targets: Callable[[PackedBatch], int]


LOSS_TERMS = (
    LossTerm(
        "text_loss", TEXT_LOSS_WEIGHT, lambda losses: losses.text,
        lambda rows: len(rows.text_targets),
    ),
    LossTerm(
        "audio_loss", AUDIO_LOSS_WEIGHT, lambda losses: losses.audio,
        lambda rows: len(rows.audio_targets),
    ),
)  # fmt: skip
# Of the validation clips; which epoch is best goes by it where nothing can be heard.
DECIDING_LOSS = "audio_loss"


class NonFiniteError(SotaqueError):
    """Losses, gradients or weights that are not finite; they are not saved."""

    exit_code = 65
