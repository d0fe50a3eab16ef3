"""The terms of the training loss; their weighted sum is minimised.

To add a term, add a row here and compute the term in `xtts.model.training.losses`. Steps,
validation, the console, metrics.jsonl, TensorBoard and manifests of checkpoints follow the rows.
"""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from machine.errors import SotaqueError
from train.defaults import AUDIO_LOSS_WEIGHT, TEXT_LOSS_WEIGHT
from xtts.model.training import Losses, PackedBatch


class LossTerm(NamedTuple):
    """A mean over targets, in nats a token.

    Attributes:
        name: In files and curves; the console shows it with spaces.
        weight: In the sum.
        mean: Takes the term from the model's losses.
        num_targets: The number of its targets in a batch.
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
# On the validation clips. It decides which epoch is best if there is no evaluation.
DECIDING_LOSS = "audio_loss"


class NonFiniteError(SotaqueError):
    """Losses, gradients or weights that are not finite; they are not saved."""

    exit_code = 65
