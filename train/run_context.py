"""What a run knows before it writes anything: machine, base, dataset."""

from dataclasses import dataclass
from pathlib import Path

from machine.devices.selection import Choice, Environment, Place
from train.dataset.dataset import Dataset
from xtts.model.config import ModelConfig
from xtts.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class RunContext:
    """Made by `train.setup.build_context`."""

    machine: Environment
    device: Place
    precision: Choice
    base: Path
    config: ModelConfig
    tokenizer: Tokenizer
    data: Dataset
