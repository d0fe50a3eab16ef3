"""The recogniser that checks words where no training runs: `speak` and books."""

from typing import Annotated

from pydantic.dataclasses import dataclass as settings_class

from machine.settings.loading import SharedSettings, load
from machine.settings.types import CONFIG, Means, PathOrWord


@settings_class(frozen=True, kw_only=True, config=CONFIG)
class RecogniserSettings(SharedSettings):
    """EVALUATE_RECOGNISER, as in `train.settings`."""

    evaluate_recogniser: Annotated[
        PathOrWord, Means("auto, off, or a folder with a Whisper model of transformers")
    ] = "auto"
    """The speech recogniser that counts word errors."""


def evaluate_recogniser() -> str:
    """EVALUATE_RECOGNISER of the environment and .env. Raises SettingsError."""
    return load(RecogniserSettings)[0].evaluate_recogniser
