"""The settings of the inspection of clips."""

from typing import Annotated

from pydantic.dataclasses import dataclass as settings_class

from machine.settings.types import CONFIG, Means, PathOrWord
from train.settings import TrainSettings


@settings_class(frozen=True, kw_only=True, config=CONFIG)
class InspectSettings(TrainSettings):
    """Models from outside that judge clips."""

    speaker_model: Annotated[PathOrWord | None, Means("an ONNX file; empty = none")] = None
    """A speaker model such as ECAPA-TDNN, to find clips of other people. Its input is 16 kHz
    samples or 80 log-mel bands, its output an embedding."""
    spoof_model: Annotated[PathOrWord | None, Means("an ONNX file; empty = none")] = None
    """A spoof model such as AASIST, which scores whether a clip is a recording or synthetic. Its
    input is 16 kHz samples or 80 log-mel bands."""


SETTINGS = (InspectSettings,)
