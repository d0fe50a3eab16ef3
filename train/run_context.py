"""What is known of a run before anything is written: machine, base, dataset, start."""

from dataclasses import dataclass
from pathlib import Path

from machine.devices.selection import Choice, Environment
from train.dataset.dataset import Dataset
from xtts.model.config import ModelConfig
from xtts.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class RunContext:
    """What is known before anything is written."""

    machine: Environment
    device: Choice
    precision: Choice
    base: Path
    config: ModelConfig
    tokenizer: Tokenizer
    data: Dataset


@dataclass(frozen=True)
class StartPosition:
    """Where a run starts or resumes: the epoch, and how many of its batches are done."""

    epoch: int = 1
    batch: int = 0

    def nothing_left(self, num_epochs: int) -> str:
        """The sentence for a run that has all the epochs that are asked for, or more."""
        done = self.epoch - 1
        ways = f"Set NUM_EPOCHS to {done + 1} or more to go on, or RESUME=never to start over."
        if done == num_epochs and not self.batch:
            all_of_them = f"All {done} epochs are" if done > 1 else "The one epoch is"
            return f"{all_of_them} done already. {ways}"
        inside = f" and {self.batch} batches of epoch {self.epoch}" if self.batch else ""
        return (
            f"The run has {done} epoch{'s' if done > 1 else ''}{inside} already, more than "
            f"NUM_EPOCHS={num_epochs}: there is nothing to train, and nothing is removed. {ways}"
        )
