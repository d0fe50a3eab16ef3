"""Checks WATERMARK when a program starts, and not when it first speaks."""

from pydantic import model_validator
from pydantic.dataclasses import dataclass as settings_class

from extras.watermark.weights import missing
from machine.settings.loading import SharedSettings
from machine.settings.types import CONFIG


@settings_class(frozen=True, kw_only=True, config=CONFIG)
class WatermarkSettings(SharedSettings):
    """The settings with a watermark that can be computed."""

    @model_validator(mode="after")
    def _weights_are_installed(self) -> "WatermarkSettings":
        if self.watermark != "off" and (reason := missing()):
            raise ValueError(reason)
        return self


SETTINGS = (WatermarkSettings,)
