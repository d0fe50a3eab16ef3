"""What `auto` means: epochs, learning rate, EMA decay, batch size, from the base's advice.

Each returns its value with the reason, which is printed before the run.
"""

from dataclasses import dataclass

from train.optim.optimizer import XTTS_LEARNING_RATE
from xtts.model.config import TrainingAdvice

DEFAULT_EPOCHS = 10
# An epoch should hold enough steps to learn from, and a batch enough audio to keep a device busy.
WANTED_STEPS = 16
# Coqui's recipe asks for 252 clips a step; a GPU gets what it has room for, up to this.
LARGEST_BATCH_SECONDS = {"cpu": 40.0, "cuda": 320.0}


@dataclass(frozen=True)
class AutoChoice:
    """A value and why."""

    value: float
    reason: str


def num_epochs(setting: int | None, advice: TrainingAdvice) -> AutoChoice:
    """NUM_EPOCHS, else what the base model recommends, else 10."""
    if setting is not None:
        return AutoChoice(setting, "NUM_EPOCHS")
    if advice.num_epochs is not None:
        return AutoChoice(advice.num_epochs, "recommended by the base model")
    return AutoChoice(DEFAULT_EPOCHS, "the default; the base model recommends nothing")


def learning_rate(setting: float | None, advice: TrainingAdvice) -> AutoChoice:
    """LEARNING_RATE, else what the base model recommends, else Coqui's recipe."""
    if setting is not None:
        return AutoChoice(setting, "LEARNING_RATE")
    if advice.learning_rate is not None:
        return AutoChoice(advice.learning_rate, "recommended by the base model")
    return AutoChoice(XTTS_LEARNING_RATE, "Coqui's recipe for XTTS-v2")


def ema_decay(setting: float | None, advice: TrainingAdvice) -> AutoChoice:
    """EMA_DECAY, else what the base model recommends, else 0: no average."""
    if setting is not None:
        return AutoChoice(setting, "EMA_DECAY")
    if advice.ema_decay is not None:
        return AutoChoice(advice.ema_decay, "recommended by the base model")
    return AutoChoice(0.0, "the default; the base model recommends nothing")


def batch_seconds(
    setting: float | None,
    advice: TrainingAdvice,
    kept: float | None,
    *,
    device: str,
    total_seconds: float,
    longest_seconds: float,
) -> AutoChoice:
    """BATCH_SECONDS: longest clip times clips in a batch.

    A resumed run keeps its own (`kept`): with another budget no step would be the same.
    """
    if kept is not None:
        ignored = setting is not None and setting != kept
        told = f"; BATCH_SECONDS={setting:g} would need a new run" if ignored else ""
        return AutoChoice(kept, f"as this run began{told}")
    if setting is not None:
        return AutoChoice(setting, "BATCH_SECONDS")
    if advice.batch_seconds is not None:
        return AutoChoice(advice.batch_seconds, "recommended by the base model")
    largest = LARGEST_BATCH_SECONDS[device.split(":")[0]]
    fair = min(total_seconds / WANTED_STEPS, largest)
    if fair < longest_seconds:
        return AutoChoice(longest_seconds, "the longest clip")
    return AutoChoice(round(fair, 1), f"about {WANTED_STEPS} steps an epoch, at most {largest:g} s")
